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
    """The name of the function parameter for an argument: `from_` for `from`."""
    return argument + "_" if keyword.iskeyword(argument) else argument


def location_of(function: Callable[..., Any]) -> str:
    """ "file:line" of a function, for messages."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, without `**rest`.

    Raises:
        TypeError: if `function` is not written in Python.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no function; an operator definition is made of one")
    code = function.__code__  # ten times as fast as inspect.signature
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def call_with_arguments(function: Callable[..., Any], overload: str, *first: object) -> Any:
    """Calls a function with `first` and the symbols that its parameters name; returns its result.

    A parameter `**rest` receives all other arguments.

    Raises:
        ValueError: if a parameter names no argument of the overload.
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
