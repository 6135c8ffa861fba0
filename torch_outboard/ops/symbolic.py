"""Functions of symbols: numbers, lists, strings and tensors in operator definitions.

A definition is a Python function that runs once, when the tables are loaded, with symbols in place
of the arguments of a call. Operations on symbols build a graph, which C++ evaluates at each call
(csrc/device_kernels/expressions/expression.h). Integers are exact: a result of more than 64 bits,
and a division by zero, make the call go to the next kernel of the operator.

Since the function runs once, a symbol has no truth value: write `where(condition, a, b)` in place
of `if`, and `&`, `|`, `~` in place of `and`, `or`, `not`. `&` and `|` short-circuit at a call.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, overload

import torch

from torch_outboard import _C
from torch_outboard.ops.symbols import (
    Bool,
    Element,
    Float,
    Int,
    Ints,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymList,
    SymString,
    SymTensor,
    SymTensors,
    as_flag,
    as_kind,
    as_tensor,
    flag_of,
    integer_of,
    ints,
    ints_of,
    node_of,
    number_of,
    one_of,
    symbol,
)

__all__ = [
    "Bool",
    "Float",
    "Int",
    "Ints",
    "SymBool",
    "SymFloat",
    "SymInt",
    "SymInts",
    "SymList",
    "SymString",
    "SymTensor",
    "SymTensors",
    "Symbol",
    "as_flag",
    "as_float",
    "as_int",
    "as_tensor",
    "broadcast_shapes",
    "ceil",
    "ceil_div",
    "distinct",
    "either",
    "either_given",
    "expand",
    "fits",
    "floor",
    "full",
    "given",
    "has_dtype",
    "has_other_dtype",
    "ints",
    "log",
    "log1p",
    "log2_ceil",
    "maximum",
    "minimum",
    "same_dtype",
    "symbol",
    "where",
    "wrap",
]


# bool is an int, and int a float, for type checkers.
@overload
def where(condition: Bool, a: Bool, b: Bool) -> SymBool: ...  # type: ignore[overload-overlap]
@overload
def where(condition: Bool, a: Int, b: Int) -> SymInt: ...  # type: ignore[overload-overlap]
@overload
def where(condition: Bool, a: Float, b: Float) -> SymFloat: ...
@overload
def where(condition: Bool, a: SymTensor, b: SymTensor) -> SymTensor: ...
@overload
def where(condition: Bool, a: Ints, b: Ints) -> SymInts: ...


def where(condition: Bool, a: Any, b: Any) -> Any:
    """`a` if the condition holds, else `b`; only the selected one is evaluated."""
    first, second = symbol(a), symbol(b)
    if isinstance(condition, bool):
        return first if condition else second
    return one_of(node_of("where", as_kind(SymBool, condition), first, second), first, second)


def given(value: Symbol) -> SymBool:
    """Whether a value is neither None nor an undefined tensor."""
    return flag_of("given", symbol(value))


def either_given(*values: Symbol) -> SymBool:
    """Whether any of the values is given."""
    return functools.reduce(operator.or_, map(given, values))


def fits(tensor: SymTensor, shape: Ints) -> SymBool:
    """Whether a tensor has a shape; True for a tensor that is not given."""
    return where(given(tensor), tensor.shape == shape, True)


@overload
def either(value: SymInt, otherwise: Int) -> SymInt: ...
@overload
def either(value: SymFloat, otherwise: Float) -> SymFloat: ...
@overload
def either(value: SymInts, otherwise: Ints) -> SymInts: ...
@overload
def either(value: SymBool, otherwise: Bool) -> SymBool: ...
@overload
def either(value: SymTensor, otherwise: SymTensor) -> SymTensor: ...


def either(value: Any, otherwise: Any) -> Any:
    """`value` if it is given, else `otherwise`."""
    other = symbol(otherwise)
    return one_of(node_of("either", symbol(value), other), value, other)


@overload
def minimum(a: Int, b: Int) -> SymInt: ...  # type: ignore[overload-overlap]
@overload
def minimum(a: Float, b: Float) -> SymFloat: ...


def minimum(a: Float, b: Float) -> SymInt | SymFloat:
    """The less of two numbers."""
    return _extreme("minimum", a, b)


@overload
def maximum(a: Int, b: Int) -> SymInt: ...  # type: ignore[overload-overlap]
@overload
def maximum(a: Float, b: Float) -> SymFloat: ...


def maximum(a: Float, b: Float) -> SymInt | SymFloat:
    """The greater of two numbers."""
    return _extreme("maximum", a, b)


def ceil_div(a: Int, b: Int) -> SymInt:
    """`a / b`, rounded up."""
    return as_kind(SymInt, (a + b - 1) // b)


def floor(value: Float) -> SymInt:
    """The number rounded down."""
    return SymInt(node_of("floor", number_of(value)))


def ceil(value: Float) -> SymInt:
    """The number rounded up."""
    return SymInt(node_of("ceil", number_of(value)))


def as_float(value: Float) -> SymFloat:
    """The nearest floating-point number."""
    return SymFloat(node_of("float", number_of(value)))


def as_int(value: Float) -> SymInt:
    """An integral number as an integer; other numbers decline the call."""
    return SymInt(node_of("int", number_of(value)))


def log(value: Float) -> SymFloat:
    """The natural logarithm."""
    return SymFloat(node_of("log", number_of(value)))


def log1p(value: Float) -> SymFloat:
    """The natural logarithm of 1 + value."""
    return SymFloat(node_of("log1p", number_of(value)))


def log2_ceil(value: Int) -> SymInt:
    """The least n with 2**n >= value."""
    return integer_of("log2_ceil", value)


def wrap(dim: Int, dims: Int) -> SymInt:
    """A dimension counted from the start; negative ones are wrapped. Raises as PyTorch does."""
    return integer_of("wrap", dim, dims)


def full(count: Int, value: Int) -> SymInts:
    """A list of `count` elements, all `value`."""
    return SymList(node_of("full", as_kind(SymInt, value), as_kind(SymInt, count)), SymInt)


@overload
def expand(value: SymInts | Int, count: Int) -> SymInts: ...
@overload
def expand(value: SymList[Element], count: Int) -> SymList[Element]: ...


def expand(value: Any, count: Int) -> Any:
    """A list of `count` elements: a number, or a list of one element, is repeated."""
    known = symbol(value)
    if not isinstance(known, (SymList, SymBool)):
        known = number_of(known)
    element = known._element if isinstance(known, SymList) else type(known)
    return SymList(node_of("expand", known, as_kind(SymInt, count)), element)


def broadcast_shapes(a: Ints, b: Ints) -> SymInts:
    """The broadcast shape of two shapes; raises as PyTorch does."""
    return SymList(node_of("broadcast", ints_of(a), ints_of(b)), SymInt)


def has_dtype(value: Symbol, *dtypes: torch.dtype) -> SymBool:
    """Whether a tensor, all of a list, a number or a dtype has one of these, or is not given."""
    return _has_dtype(value, _C.dtype_bits(list(dtypes)))


def has_other_dtype(value: Symbol, *dtypes: torch.dtype) -> SymBool:
    """Like `has_dtype`, for all dtypes except these."""
    return _has_dtype(value, ~_C.dtype_bits(list(dtypes)))


def same_dtype(a: Symbol, b: Symbol) -> SymBool:
    """Whether two tensors, or lists of tensors, have the same dtypes; ungiven ones fit all."""
    return flag_of("same_dtype", _with_dtype(a), _with_dtype(b))


def distinct(dims: Ints, count: Int) -> SymBool:
    """Whether `dims` are distinct dimensions of a tensor with `count` dimensions, all in range."""
    return flag_of("distinct", ints_of(dims), as_kind(SymInt, count))


def _extreme(operation: str, a: Float, b: Float) -> SymInt | SymFloat:
    first, second = number_of(a), number_of(b)
    real = isinstance(first, SymFloat) or isinstance(second, SymFloat)
    return (SymFloat if real else SymInt)(node_of(operation, first, second))


def _has_dtype(value: Symbol, bits: int) -> SymBool:
    return flag_of("has_dtype", _with_dtype(value), symbol(bits))


def _with_dtype(value: Symbol) -> Symbol:
    # Schemas have type int for arguments of type ScalarType.
    return Symbol(node_of("as_dtype", value)) if isinstance(value, SymInt) else value
