"""Arguments of operators as symbols, for the functions of operator definitions."""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any

import torch

from torch_outboard.ops.symbols import Symbol, argument


@functools.cache
def arguments_of(overload: str) -> Mapping[str, Symbol]:
    """The arguments of an overload, `"aten::gather.out"`, by their names.

    Raises:
        ValueError: if there is no such overload.
    """
    name, _, which = overload.partition(".")
    try:
        schema = torch._C._get_schema(name, which)
    except RuntimeError:
        raise ValueError(
            f"operator '{overload}' does not exist; write it as 'aten::add.Tensor'"
        ) from None
    return MappingProxyType({a.name: argument(a.name, str(a.type)) for a in schema.arguments})


def parameter_name(argument: str) -> str:
    """The parameter of a function that stands for an argument: `from_` for `from`."""
    return argument + "_" if keyword.iskeyword(argument) else argument


def location_of(function: Callable[..., Any]) -> str:
    """ "file:line" of a function, for messages."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, without `**rest`.

    Raises:
        TypeError: if it is no function that was written in Python.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no function; an operator definition is made of one")
    code = function.__code__  # which inspect.signature would take ten times as long to describe
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def call_with_arguments(function: Callable[..., Any], overload: str, *first: object) -> Any:
    """The result of a function for symbols of the arguments that it takes, behind `first`.

    A parameter `**rest` takes all others.

    Raises:
        ValueError: if it has a parameter that is no argument of the overload.
    """
    names = parameters_of(function)[len(first) :]
    known = {parameter_name(name): value for name, value in arguments_of(overload).items()}
    for name in names:
        if name not in known:
            raise ValueError(
                f"{location_of(function)}: {overload} has no argument '{name}'; it has "
                f"{', '.join(known)}"
            )
    takes_all = function.__code__.co_flags & inspect.CO_VARKEYWORDS
    return function(*first, **(known if takes_all else {name: known[name] for name in names}))
