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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast, overload

import torch

from torch_outboard import _C


class Node:
    """An operation of the graph: its name, the nodes it takes, and its constant."""

    __slots__ = ("children", "constant", "operation")

    def __init__(
        self, operation: str, children: Sequence[Node] = (), constant: float | str | None = None
    ) -> None:
        self.operation = operation
        self.children = tuple(children)
        self.constant = constant


class Symbol:
    """A value that is known only at a call of the operator.

    Attributes:
        node: the node that computes it.
        optional: whether it is an argument that may be None.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.optional = False

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a symbol has no truth value, because only a call knows it; use where(condition, a, b) "
            "for `if`, and &, |, ~ for `and`, `or`, `not`"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"{type(self).__name__} cannot be iterated over; only a call knows its length"
        )

    def __repr__(self) -> str:
        return _name(self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> SymBool:  # type: ignore[override]
        return _flag_of("eq", self, _comparable(self, other))

    def __ne__(self, other: object) -> SymBool:  # type: ignore[override]
        return _flag_of("ne", self, _comparable(self, other))


class SymBool(Symbol):
    """A flag. As a number it is 0 or 1."""

    def __and__(self, other: Bool) -> SymBool:
        return _flag_of("and", self, _as_kind(SymBool, other))

    def __rand__(self, other: bool) -> SymBool:
        return _flag_of("and", _as_kind(SymBool, other), self)

    def __or__(self, other: Bool) -> SymBool:
        return _flag_of("or", self, _as_kind(SymBool, other))

    def __ror__(self, other: bool) -> SymBool:
        return _flag_of("or", _as_kind(SymBool, other), self)

    def __invert__(self) -> SymBool:
        return _flag_of("not", self)


def _integers(operation: str, *, reflected: bool = False) -> Callable[[SymInt, Int], SymInt]:
    """The method of an operator of integers."""
    if reflected:
        return lambda self, other: _integer_of(operation, other, self)
    return lambda self, other: _integer_of(operation, self, other)


def _reals(operation: str, *, reflected: bool = False) -> Callable[[_Number, Float], SymFloat]:
    """The method of an operator with a real result."""
    if reflected:
        return lambda self, other: SymFloat(_node_of(operation, _number_of(other), self))
    return lambda self, other: SymFloat(_node_of(operation, self, _number_of(other)))


def _compares(operation: str) -> Callable[[_Number, Float], SymBool]:
    """The method of a comparison."""
    return lambda self, other: _flag_of(operation, self, _number_of(other))


class _Number(Symbol):
    """The common base class of integers and reals."""

    __lt__ = _compares("lt")
    __le__ = _compares("le")
    __gt__ = _compares("gt")
    __ge__ = _compares("ge")
    __truediv__ = _reals("truediv")
    __rtruediv__ = _reals("truediv", reflected=True)


class SymInt(_Number):
    """An integer of 64 bits."""

    __add__ = _integers("add")
    __radd__ = _integers("add", reflected=True)
    __sub__ = _integers("sub")
    __rsub__ = _integers("sub", reflected=True)
    __mul__ = _integers("mul")
    __rmul__ = _integers("mul", reflected=True)
    __floordiv__ = _integers("floordiv")
    __rfloordiv__ = _integers("floordiv", reflected=True)
    __mod__ = _integers("mod")
    __rmod__ = _integers("mod", reflected=True)

    def __neg__(self) -> SymInt:
        return _integer_of("neg", self)

    def __abs__(self) -> SymInt:
        return _integer_of("abs", self)


class SymFloat(_Number):
    """A number that may have a fraction: a float, or an argument of type `Scalar`."""

    __add__ = _reals("add")
    __radd__ = _reals("add", reflected=True)
    __sub__ = _reals("sub")
    __rsub__ = _reals("sub", reflected=True)
    __mul__ = _reals("mul")
    __rmul__ = _reals("mul", reflected=True)

    def __neg__(self) -> SymFloat:
        return SymFloat(_node_of("neg", self))

    def __abs__(self) -> SymFloat:
        return SymFloat(_node_of("abs", self))


Element = TypeVar("Element", bound=Symbol)


class SymList(Symbol, Generic[Element]):
    """A list of numbers or flags."""

    def __init__(self, node: Node, element: type[Element]) -> None:
        super().__init__(node)
        self._element = element

    @overload
    def __getitem__(self, index: Int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> SymList[Element]: ...

    def __getitem__(self, index: Int | slice) -> Element | SymList[Element]:
        """An element, counted from the end if the index is negative, or a slice."""
        if not isinstance(index, slice):
            return self._element(_node_of("element", self, _as_kind(SymInt, index)))
        if index.step is not None:
            raise TypeError("a slice of a symbolic list takes no step")
        first = 0 if index.start is None else index.start
        if index.stop is None:
            return self._list("tail", self, _as_kind(SymInt, first))
        return self._list("slice", self, _as_kind(SymInt, first), _as_kind(SymInt, index.stop))

    def _list(self, operation: str, *values: Symbol) -> SymList[Element]:
        return SymList(_node_of(operation, *values), self._element)

    def __add__(self, other: SymList[Element] | Sequence[Any]) -> SymList[Element]:
        return self._list("concat", self, _list_like(self, other))

    def __radd__(self, other: Sequence[Any]) -> SymList[Element]:
        return self._list("concat", _list_like(self, other), self)

    def len(self) -> SymInt:
        """The number of elements."""
        return _integer_of("len", self)

    def prod(self) -> Element:
        return self._element(_node_of("prod", self))

    @overload
    def sum(self: SymList[SymBool]) -> SymInt: ...
    @overload
    def sum(self) -> Element: ...

    def sum(self) -> Any:
        """The sum; of flags, the number of true ones."""
        return (SymInt if self._element is SymBool else self._element)(_node_of("sum", self))

    def min(self) -> Element:
        return self._element(_node_of("min", self))

    def max(self) -> Element:
        return self._element(_node_of("max", self))

    def drop(self, index: Int) -> SymList[Element]:
        """The list without the element at an index; an empty list stays empty."""
        return self._list("drop", self, _as_kind(SymInt, index))

    def replace(self, index: Int, value: Any) -> SymList[Element]:
        """The list with the element at an index replaced by `value`."""
        element = _number_of(value) if self._element is SymFloat else _as_kind(self._element, value)
        return self._list("replace", self, _as_kind(SymInt, index), element)

    def clamp_min(self, bound: Float) -> SymList[Element]:
        """The list with elements less than `bound` replaced by `bound`."""
        return self._list("maximum", self, _number_of(bound))

    def clamp_max(self, bound: Float) -> SymList[Element]:
        """The list with elements greater than `bound` replaced by `bound`."""
        return self._list("minimum", self, _number_of(bound))

    def padded(self, amounts: Ints) -> SymList[Element]:
        """Padded sizes: two amounts for each size, before and after, from the last size on."""
        return self._list("padded", self, _ints_of(amounts))


class SymString(Symbol):
    """A string; it supports comparison only."""


class SymTensor(Symbol):
    """A tensor; for an argument that may be None and an unwanted result, ask `given` first."""

    def numel(self) -> SymInt:
        return _integer_of("numel", self)

    def dim(self) -> SymInt:
        return _integer_of("dim", self)

    def size(self, dim: Int) -> SymInt:
        """The size of a dimension, which may be negative; 1 for a tensor without dimensions."""
        return _integer_of("size", self, dim)

    def stride(self, dim: Int) -> SymInt:
        """The stride of a dimension in elements; 1 for a tensor without dimensions."""
        return _integer_of("stride", self, dim)

    @property
    def shape(self) -> SymInts:
        return SymList(_node_of("shape", self), SymInt)

    def is_contiguous(self) -> SymBool:
        """Whether the elements are in row-major order without gaps."""
        return _flag_of("is_contiguous", self)

    def element_size(self) -> SymInt:
        """The size of an element in bytes."""
        return _integer_of("element_size", self)

    def is_floating_point(self) -> SymBool:
        return _flag_of("is_floating_point", self)


class SymTensors(Symbol):
    """A list of tensors, which may contain None."""

    def __getitem__(self, index: Int) -> SymTensor:
        """The tensor at an index; a tensor that is not given if the list is shorter."""
        return SymTensor(_node_of("tensor", self, _as_kind(SymInt, index)))

    def given(self) -> SymList[SymBool]:
        """A flag per tensor: whether it is given."""
        return SymList(_node_of("given_each", self), SymBool)

    def len(self) -> SymInt:
        return self.given().len()


SymInts: TypeAlias = SymList[SymInt]
Bool: TypeAlias = SymBool | bool
Int: TypeAlias = SymInt | int
Float: TypeAlias = SymFloat | SymInt | float
Ints: TypeAlias = SymInts | Sequence[Int]
Value: TypeAlias = Symbol | float | str | Sequence[Any]
Any_ = TypeVar("Any_", bound=Symbol)


# ---- Symbols of constants


def symbol(value: Value) -> Symbol:
    """A constant, or a list of numbers, flags and symbols, as a symbol.

    Raises:
        TypeError: for anything else.
        ValueError: for an integer of more than 64 bits.
    """
    if isinstance(value, Symbol):
        return value
    if isinstance(value, bool):
        return SymBool(Node("number", (), int(value)))
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{value} needs more than 64 bits")
        return SymInt(Node("number", (), value))
    if isinstance(value, float):
        return SymFloat(Node("number", (), value))
    if isinstance(value, str):
        return SymString(Node("string", (), value))
    if isinstance(value, (list, tuple)):
        elements = [
            element if isinstance(element, SymBool) else _number_of(element)
            for element in map(symbol, value)
        ]
        kinds = {type(element) for element in elements}
        of = SymFloat if SymFloat in kinds else SymBool if kinds == {SymBool} else SymInt
        return SymList(_node_of("list", *elements), of)
    raise TypeError(f"{value!r} is not a symbol, number, flag, string or list of those")


def as_tensor(value: Symbol) -> SymTensor:
    """Casts a symbol to a tensor, for type checkers."""
    return _as_kind(SymTensor, value)


def as_flag(value: Symbol | bool) -> SymBool:
    """A flag as a symbol, because `~` of a `bool` is an integer."""
    return _as_kind(SymBool, value)


def ints(values: Iterable[Int]) -> SymInts:
    """A list of integers or symbols as a symbol."""
    return SymList(_node_of("list", *(_as_kind(SymInt, value) for value in values)), SymInt)


# ---- Constructing nodes


def _node_of(operation: str, *values: Symbol) -> Node:
    return Node(operation, [value.node for value in values])


def _flag_of(operation: str, *values: Symbol) -> SymBool:
    return SymBool(_node_of(operation, *values))


def _integer_of(operation: str, *values: Int | Symbol) -> SymInt:
    operands = [
        value if isinstance(value, (SymList, SymTensor, SymTensors)) else _as_kind(SymInt, value)
        for value in values
    ]
    return SymInt(_node_of(operation, *operands))


def _as_kind(kind: type[Any_], value: object) -> Any_:
    """A value as a symbol of a kind, or TypeError."""
    known = symbol(cast("Value", value))
    if isinstance(known, kind):
        return known
    if kind is SymInt and isinstance(known, SymBool):
        return kind(known.node)
    raise TypeError(f"{_name(known)} is given where {kind.__name__} is needed")


def _number_of(value: object) -> _Number:
    known = symbol(cast("Value", value))
    if isinstance(known, SymBool):
        return SymInt(known.node)
    if not isinstance(known, _Number):
        raise TypeError(f"{_name(known)} is given where a number is needed")
    return known


def _ints_of(value: Ints) -> SymInts:
    if isinstance(value, SymList) or not isinstance(value, Symbol):
        return value if isinstance(value, SymList) else ints(value)
    raise TypeError(f"{_name(value)} is given where a list is needed")


def _one_of(node: Node, first: Symbol, second: Symbol) -> Symbol:
    """The symbol of a node that selects one of two values, which must be of the same kind."""
    numbers = (SymBool, SymInt, SymFloat)  # each converts to the next
    if isinstance(first, numbers) and isinstance(second, numbers):
        return max((type(first), type(second)), key=numbers.index)(node)
    if type(first) is not type(second) and Symbol not in (type(first), type(second)):
        raise TypeError(f"{_name(first)} and {_name(second)} are of different kinds")
    return SymList(node, first._element) if isinstance(first, SymList) else type(first)(node)


def _list_like(model: SymList[Any], value: object) -> SymList[Any]:
    known = symbol(cast("Value", value))
    if not isinstance(known, SymList):
        raise TypeError(f"{_name(known)} is given where a list is needed")
    if known._element is SymFloat and model._element is not SymFloat:
        raise TypeError(f"{_name(known)} of reals is given where a list of integers is needed")
    return known


def _comparable(a: Symbol, b: object) -> Symbol:
    other = Symbol(Node("none")) if b is None else symbol(cast("Value", b))
    numbers = (SymInt, SymFloat, SymBool)
    same = type(other) is type(a) or (isinstance(a, numbers) and isinstance(other, numbers))
    if not same and type(a) is not Symbol and type(other) is not Symbol:
        raise TypeError(f"{_name(a)} cannot be compared with {_name(other)}")
    return other


def _name(value: Symbol) -> str:
    name = value.node.constant if value.node.operation == "name" else None
    return type(value).__name__ + (f" '{name}'" if name is not None else "")


# ---- Functions of symbols


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
    return _one_of(_node_of("where", _as_kind(SymBool, condition), first, second), first, second)


def given(value: Symbol) -> SymBool:
    """Whether a value is neither None nor an undefined tensor."""
    return _flag_of("given", symbol(value))


def either_given(*values: Symbol) -> SymBool:
    """Whether any of the values is given."""
    return functools.reduce(operator.or_, map(given, values))


def fits(tensor: SymTensor, shape: Ints) -> SymBool:
    """Whether a tensor has a shape; True for a tensor that is not given."""
    return where(given(tensor), tensor.shape == shape, True)


def either(value: Any_, otherwise: Any_ | float | Sequence[Any]) -> Any_:
    """`value` if it is given, else `otherwise`."""
    other = symbol(otherwise)
    return cast("Any_", _one_of(_node_of("either", value, other), value, other))


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
    return _as_kind(SymInt, (a + b - 1) // b)


def floor(value: Float) -> SymInt:
    """The number rounded down."""
    return SymInt(_node_of("floor", _number_of(value)))


def ceil(value: Float) -> SymInt:
    """The number rounded up."""
    return SymInt(_node_of("ceil", _number_of(value)))


def as_float(value: Float) -> SymFloat:
    """The nearest floating-point number."""
    return SymFloat(_node_of("float", _number_of(value)))


def as_int(value: Float) -> SymInt:
    """An integral number as an integer; other numbers decline the call."""
    return SymInt(_node_of("int", _number_of(value)))


def log(value: Float) -> SymFloat:
    """The natural logarithm."""
    return SymFloat(_node_of("log", _number_of(value)))


def log1p(value: Float) -> SymFloat:
    """The natural logarithm of 1 + value."""
    return SymFloat(_node_of("log1p", _number_of(value)))


def log2_ceil(value: Int) -> SymInt:
    """The least n with 2**n >= value."""
    return _integer_of("log2_ceil", value)


def wrap(dim: Int, dims: Int) -> SymInt:
    """A dimension counted from the start; negative ones are wrapped. Raises as PyTorch does."""
    return _integer_of("wrap", dim, dims)


@overload
def expand(value: SymInts | Int, count: Int) -> SymInts: ...
@overload
def expand(value: SymList[Element], count: Int) -> SymList[Element]: ...


def expand(value: Any, count: Int) -> Any:
    """A list of `count` elements: a number, or a list of one element, is repeated."""
    known = symbol(value)
    if not isinstance(known, (SymList, SymBool)):
        known = _number_of(known)
    element = known._element if isinstance(known, SymList) else type(known)
    return SymList(_node_of("expand", known, _as_kind(SymInt, count)), element)


def broadcast_shapes(a: Ints, b: Ints) -> SymInts:
    """The broadcast shape of two shapes; raises as PyTorch does."""
    return SymList(_node_of("broadcast", _ints_of(a), _ints_of(b)), SymInt)


def has_dtype(value: Symbol, *dtypes: torch.dtype) -> SymBool:
    """Whether a tensor, all of a list, a number or a dtype has one of these, or is not given."""
    return _has_dtype(value, _C.dtype_bits(list(dtypes)))


def has_other_dtype(value: Symbol, *dtypes: torch.dtype) -> SymBool:
    """Like `has_dtype`, for all dtypes except these."""
    return _has_dtype(value, ~_C.dtype_bits(list(dtypes)))


def same_dtype(a: Symbol, b: Symbol) -> SymBool:
    """Whether two tensors, or lists of tensors, have the same dtypes; ungiven ones fit all."""
    return _flag_of("same_dtype", _with_dtype(a), _with_dtype(b))


def distinct(dims: Ints, count: Int) -> SymBool:
    """Whether `dims` are distinct dimensions of a tensor with `count` dimensions, all in range."""
    return _flag_of("distinct", _ints_of(dims), _as_kind(SymInt, count))


def _extreme(operation: str, a: Float, b: Float) -> SymInt | SymFloat:
    first, second = _number_of(a), _number_of(b)
    real = isinstance(first, SymFloat) or isinstance(second, SymFloat)
    return (SymFloat if real else SymInt)(_node_of(operation, first, second))


def _has_dtype(value: Symbol, bits: int) -> SymBool:
    return _flag_of("has_dtype", _with_dtype(value), symbol(bits))


def _with_dtype(value: Symbol) -> Symbol:
    # Schemas have type int for arguments of type ScalarType.
    return Symbol(_node_of("as_dtype", value)) if isinstance(value, SymInt) else value
