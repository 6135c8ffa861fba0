"""Requirements on the arguments of a call, which an operator definition needs to serve it.

`requires` of a definition maps names of arguments to the only served value (None, a flag, a number,
a string, an empty list) or to a predicate below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import torch

from torch_outboard.ops.definition import (
    Definition,
    Graph,
    arguments_of,
    call_with_arguments,
    location_of,
    qualified,
)
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

# Parameters: the argument's symbol, and the symbols of all arguments by name.
Predicate: TypeAlias = Callable[[Symbol, Mapping[str, Symbol]], SymBool]
Kind = TypeVar("Kind", bound=Definition)
Requirement: TypeAlias = Predicate | bool | float | str | Sequence[int] | None


def of_dtype(*dtypes: torch.dtype) -> Predicate:
    """The tensor, all tensors of a list, the number or the dtype is of these, if it is given."""
    return lambda argument, _: has_dtype(argument, *dtypes)


def not_of_dtype(*dtypes: torch.dtype) -> Predicate:
    """Like `of_dtype`, for all other dtypes."""
    return lambda argument, _: has_other_dtype(argument, *dtypes)


def of_dtype_of(name: str) -> Predicate:
    """The argument has the dtype of another argument."""
    return lambda argument, arguments: same_dtype(argument, arguments[name])


def at_least(bound: float) -> Predicate:
    """The argument is a number not less than `bound`."""
    return lambda argument, _: given(argument) & (cast("SymFloat", argument) >= bound)


def distinct_in(name: str) -> Predicate:
    """The argument lists distinct dimensions of another argument."""
    return lambda argument, arguments: distinct(
        cast("SymInts", argument), cast("SymTensor", arguments[name]).dim()
    )


def requirements(
    wanted: Mapping[str, Requirement], arguments: Mapping[str, Symbol]
) -> list[SymBool]:
    """The conditions of requirements, as flags.

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
    return value == wanted  # an argument of None equals no value


def definition_of(
    kind: type[Kind],
    overloads: str | Iterable[str],
    *,
    location: str,
    requires: Mapping[str, Requirement] | None = None,
    condition: Callable[..., SymBool] | None = None,
    derived: Callable[..., Mapping[str, Float]] | None = None,
    **fields: Any,
) -> Kind:
    """An operator definition that serves the calls which fulfil requirements and a condition.

    Args:
        requires: requirements on arguments.
        condition: a function of arguments, by their names; served calls fulfil it.
        derived: a function of arguments that returns further values of a call by name.
        fields: of the kind.

    Raises:
        ValueError: if one of these names an argument that the operator does not have.
    """
    names = qualified(overloads)
    graph = Graph()
    conditions = requirements(requires or {}, arguments_of(names[0]))
    if condition is not None:
        conditions.append(call_with_arguments(condition, names[0]))
        location = location_of(condition)
    if derived is not None:
        values = call_with_arguments(derived, names[0])
        fields["derived"] = {name: graph.add(value) for name, value in values.items()}
    known = [graph.add(each) for each in conditions]
    return kind(overloads=names, location=location, graph=graph.nodes, conditions=known, **fields)
