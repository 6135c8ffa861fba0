"""Conditions on the arguments of a call that an operator definition serves.

A definition's `requires` is a dictionary: names of arguments, and for each the only value that is
served (None, a flag, a number, a string, an empty list) or one of the predicates below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import torch

from torch_outboard.ops.arguments import arguments_of, call_with_arguments, location_of
from torch_outboard.ops.definition import Definition
from torch_outboard.ops.symbolic import (
    Float,
    Symbol,
    SymBool,
    SymFloat,
    SymInts,
    SymTensor,
    SymTensors,
    distinct,
    given,
    has_dtype,
    has_other_dtype,
    same_dtype,
)
from torch_outboard.ops.symbols import Graph

# Of the argument's symbol, and those of all arguments by their names.
Predicate: TypeAlias = Callable[[Symbol, Mapping[str, Symbol]], SymBool]
Requirement: TypeAlias = Predicate | bool | float | str | Sequence[int] | None


def of_dtype(*dtypes: torch.dtype) -> Predicate:
    """Tensors, each element of a list, numbers and dtypes have one of these, if they are given."""
    return lambda argument, _: has_dtype(argument, *dtypes)


def not_of_dtype(*dtypes: torch.dtype) -> Predicate:
    """They have any other."""
    return lambda argument, _: has_other_dtype(argument, *dtypes)


def of_dtype_of(name: str) -> Predicate:
    """They have the dtype of another argument, if both are given."""
    return lambda argument, arguments: same_dtype(argument, arguments[name])


def at_least(bound: float) -> Predicate:
    """A number that is not less."""
    return lambda argument, _: given(argument) & (cast("SymFloat", argument) >= bound)


def distinct_in(name: str) -> Predicate:
    """Dimensions of another argument, none of which comes twice."""
    return lambda argument, arguments: distinct(
        cast("SymInts", argument), cast("SymTensor", arguments[name]).dim()
    )


def requirements(
    wanted: Mapping[str, Requirement], arguments: Mapping[str, Symbol]
) -> list[SymBool]:
    """The conditions that arguments are what is wanted.

    Raises:
        ValueError: if the operator has no such argument.
    """
    if unknown := [name for name in wanted if name not in arguments]:
        raise ValueError(f"there is no argument '{unknown[0]}'; there are {', '.join(arguments)}")
    return [_condition(arguments[name], value, arguments) for name, value in wanted.items()]


def _condition(value: Symbol, wanted: Requirement, arguments: Mapping[str, Symbol]) -> SymBool:
    if callable(wanted):
        return wanted(value, arguments)
    if wanted is None:
        return ~given(value)
    if isinstance(value, SymTensors):
        return given(value) & (value.len() == 0)
    return value == wanted  # None equals nothing


def served_calls(
    overload: str,
    requires: Mapping[str, Requirement] | None = None,
    condition: Callable[..., SymBool] | None = None,
    derived: Callable[..., Mapping[str, Float]] | None = None,
) -> Definition:
    """The part of an operator definition that says which calls it serves.

    Args:
        overload: `"aten::add.Tensor"`, or the first of several with the same arguments.
        requires: what arguments have to be.
        condition: a function of arguments, by their names, whose value has to hold.
        derived: such a function whose values, with names, are computed for a call.

    Raises:
        ValueError: if one of them names an argument that the operator does not have.
    """
    definition: Definition = {}
    conditions = requirements(requires or {}, arguments_of(overload))
    if condition is not None:
        conditions.append(call_with_arguments(condition, overload))
        definition["location"] = location_of(condition)
    values = {} if derived is None else call_with_arguments(derived, overload)
    if not conditions and not values:
        return {}
    graph = Graph()
    definition["conditions"] = [graph.add(each) for each in conditions]
    if values:
        definition["derived"] = {name: graph.add(value) for name, value in values.items()}
    return {**definition, "graph": graph.nodes}
