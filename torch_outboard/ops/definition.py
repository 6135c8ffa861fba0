"""Operator definitions as C++ gets them (csrc/device_kernels/definitions/definition.h), graphs of
symbols, and arguments of operators as symbols.
"""

import inspect
import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, ClassVar, TypeVar

import torch

from torch_outboard import _C
from torch_outboard.ops.symbolic import (
    Float,
    Node,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymList,
    SymString,
    SymTensor,
    SymTensors,
    Value,
    symbol,
)
from torch_outboard.state import PACKAGE

Nodes = list[tuple[str, list[int], float | str | None]]  # of a graph of symbolic.py
Kind = TypeVar("Kind", bound="Definition")


@dataclass(kw_only=True, eq=False)
class Definition:
    """An operator definition; each kind is a subclass with further fields.

    Kernels read the fields of their kind by name. A field that only Python or only C++ has raises
    ValueError, which names it, when the definition is loaded.

    Attributes:
        kind: the kernel generator.
        overloads: full names, `"aten::add.Tensor"`.
        location: "file:line", for messages.
        graph: nodes that fields name by index.
        family: the kind of work, for listings and `prebuild --family`; default: that of the module
            in tables.py, or else the kind.
        conditions: nodes over the arguments; calls for which one is false are declined.
        alert: the name of a nondeterministic operator in PyTorch's error or warning for
            `torch.use_deterministic_algorithms`.
    """

    kind: ClassVar[str]
    overloads: list[str]
    location: str = ""
    graph: Nodes = field(default_factory=list, repr=False)
    family: str = ""
    conditions: list[int] = field(default_factory=list, repr=False)
    alert: str = ""


# Groups of dtypes.
HALVES = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)  # those of CPU kernels without half precision
FLOATS = (*HALVES, *WIDE)
COMPLEX = (torch.complex64, torch.complex128)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTEGERS = (torch.uint8, *SIGNED)
BOOL = (torch.bool,)
REALS = (*FLOATS, *INTEGERS)
ORDERED = (*REALS, *BOOL)
NUMBERS = (*REALS, *COMPLEX)
EVERY = (*ORDERED, *COMPLEX)
INDICES = (torch.int32, torch.int64)


# An error that kernels raise at the next synchronization where a value is wrong, such as an index
# out of range; an instance has its message.
Report = type[Exception] | Exception


def reported(error: Report | None) -> dict[str, Any]:
    """The fields of a definition that reports an error."""
    if error is None:
        return {}
    kind = error if isinstance(error, type) else type(error)
    return {"reports": kind.__name__, "report": "" if kind is error else str(error)}


def caller_location() -> str:
    """ "file:line", for messages: of the call into the module that calls this function, or of a
    call in the module by a function without parameters, which makes definitions."""
    frame = sys._getframe(1)
    module = frame.f_code.co_filename
    while frame.f_back is not None and frame.f_code.co_filename == module:
        if frame.f_code.co_argcount == 0:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def dtype_bits(dtypes: Iterable[torch.dtype]) -> int:
    """A bit mask: bit i is set for the dtype of number i."""
    return _C.dtype_bits(list(dtypes))


def dtype_number(dtype: torch.dtype) -> int:
    """The number of a dtype in C++."""
    return dtype_bits((dtype,)).bit_length() - 1


def qualified(names: str | Iterable[str]) -> list[str]:
    """Full names of overloads: `"add.Tensor add.out"` are `aten::add.Tensor`, `aten::add.out`."""
    listed = names.split() if isinstance(names, str) else names
    return [name if "::" in name else f"aten::{name}" for name in listed]


@cache
def kernel_source(name: str) -> str:
    """The source in the one file `<name>.cl` below `torch_outboard/kernels`.

    Sources for one folder of `torch_outboard/ops` are in the folder of the same name. Sources that
    several folders use are in `kernels` itself.
    """
    return _template_files()[name].read_text()


@cache
def _template_files() -> dict[str, Path]:
    return {file.stem: file for file in (PACKAGE / "kernels").rglob("*.cl")}


def call_scalar_functions(source: str, names: Iterable[str]) -> str:
    """OpenCL C in which calls of scalar functions have their prefix: `exp(x)` is `ob_exp(x)`."""
    return _calls_of(frozenset(names)).sub(r"ob_\1", source)


@cache
def _calls_of(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![\w.])(" + "|".join(sorted(map(re.escape, names))) + r")(?=\s*\()")


# ---- Graphs of symbols


class Graph:
    """Nodes in topological order, operands first, as C++ expects them."""

    def __init__(self, nodes: Nodes | None = None) -> None:
        self._index: dict[Any, int] = {}  # by operation, operands and constant
        self._known: dict[Node, int] = {}  # by the node itself
        self.nodes: Nodes = [] if nodes is None else nodes

    def add(self, value: Value) -> int:
        """The index of a value's node. Equal operations on equal nodes share a node."""
        return self._add(symbol(value).node)

    def _add(self, node: Node) -> int:
        known = self._known.get(node)
        if known is not None:
            return known
        children = [self._add(child) for child in node.children]
        # 0.0 and -0.0 are equal, but division by them differs.
        constant = node.constant.hex() if isinstance(node.constant, float) else node.constant
        key = (node.operation, *children, type(node.constant), constant)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.nodes)
            self.nodes.append((node.operation, children, node.constant))
        self._known[node] = index
        return index


# ---- Arguments of operators as symbols, for the functions of operator definitions


@cache
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


def argument(name: str, kind: str) -> Symbol:
    """The symbol of an argument; `kind` is its type as schemas print it, as "Optional[int]"."""
    node = Node("name", (), name)
    plain = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Opt") else kind
    if plain.startswith("List["):
        element = plain.removeprefix("List[").removesuffix("]")
        if "Tensor" in element:
            return SymTensors(node)
        made: Symbol = SymList(node, {"int": SymInt, "bool": SymBool}.get(element, SymFloat))
        made.optional = plain != kind
        return made
    kinds: dict[str, type[Symbol]] = {
        "Tensor": SymTensor, "int": SymInt, "bool": SymBool, "str": SymString,
        "float": SymFloat, "number": SymFloat,
    }  # fmt: skip
    found = kinds.get(plain, Symbol)(node)
    found.optional = plain != kind
    return found


def fact(name: str) -> Node:
    """A value that C++ provides by name at a call: of the device, a result, a read value."""
    return Node("name", (), name)


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
        raise TypeError(f"{function!r} is not a Python function; an operator definition is one")
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


def definition_of(
    kind: type[Kind],
    overloads: str | Iterable[str],
    *,
    location: str,
    condition: Callable[..., SymBool] | None = None,
    derived: Callable[..., Mapping[str, Float]] | None = None,
    **fields: Any,
) -> Kind:
    """An operator definition that serves the calls which fulfil a condition.

    Args:
        condition: a function of arguments, by their names and as symbols.
        derived: a function of arguments that returns further values of a call by name.
        fields: of the kind.

    Raises:
        ValueError: if one of these names an argument that the operator does not have.
    """
    names = qualified(overloads)
    graph = Graph()
    if condition is not None:
        fields["conditions"] = [graph.add(call_with_arguments(condition, names[0]))]
    if derived is not None:
        values = call_with_arguments(derived, names[0])
        fields["derived"] = {name: graph.add(value) for name, value in values.items()}
    return kind(overloads=names, location=location, graph=graph.nodes, **fields)
