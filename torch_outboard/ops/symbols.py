"""Symbols: numbers, lists, strings and tensors whose values are known only at a call.

Operations on them make nodes of a graph; symbolic.py has the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast, overload


class Node:
    """An operation of the graph: its name, the nodes it takes, and its constant."""

    __slots__ = ("children", "constant", "operation")

    def __init__(
        self, operation: str, children: Sequence[Node] = (), constant: float | str | None = None
    ) -> None:
        self.operation = operation
        self.children = tuple(children)
        self.constant = constant


class Graph:
    """Nodes in topological order, operands first, as C++ expects them."""

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}  # by operation, operands and constant
        self._known: dict[Node, int] = {}  # by the node itself
        self.nodes: list[tuple[str, list[int], float | str | None]] = []

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
            "a symbol has no truth value, since it is known at a call alone; use where(condition, "
            "a, b) in place of if, and &, |, ~ in place of and, or, not"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} cannot be iterated over; its length is known late")

    def __repr__(self) -> str:
        return _name(self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> SymBool:  # type: ignore[override]
        return flag_of("eq", self, _comparable(self, other))

    def __ne__(self, other: object) -> SymBool:  # type: ignore[override]
        return flag_of("ne", self, _comparable(self, other))


class SymBool(Symbol):
    """A flag. As a number it is 0 or 1."""

    def __and__(self, other: Bool) -> SymBool:
        return flag_of("and", self, as_kind(SymBool, other))

    def __rand__(self, other: bool) -> SymBool:
        return flag_of("and", as_kind(SymBool, other), self)

    def __or__(self, other: Bool) -> SymBool:
        return flag_of("or", self, as_kind(SymBool, other))

    def __ror__(self, other: bool) -> SymBool:
        return flag_of("or", as_kind(SymBool, other), self)

    def __invert__(self) -> SymBool:
        return flag_of("not", self)


def _integers(operation: str, *, reflected: bool = False) -> Callable[[SymInt, Int], SymInt]:
    """The method of an operator of integers."""
    if reflected:
        return lambda self, other: integer_of(operation, other, self)
    return lambda self, other: integer_of(operation, self, other)


def _reals(operation: str, *, reflected: bool = False) -> Callable[[_Number, Float], SymFloat]:
    """The method of an operator with a real result."""
    if reflected:
        return lambda self, other: SymFloat(node_of(operation, number_of(other), self))
    return lambda self, other: SymFloat(node_of(operation, self, number_of(other)))


def _compares(operation: str) -> Callable[[_Number, Float], SymBool]:
    """The method of a comparison."""
    return lambda self, other: flag_of(operation, self, number_of(other))


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
        return integer_of("neg", self)

    def __abs__(self) -> SymInt:
        return integer_of("abs", self)


class SymFloat(_Number):
    """A number that may have a fraction: a float, or an argument of type `Scalar`."""

    __add__ = _reals("add")
    __radd__ = _reals("add", reflected=True)
    __sub__ = _reals("sub")
    __rsub__ = _reals("sub", reflected=True)
    __mul__ = _reals("mul")
    __rmul__ = _reals("mul", reflected=True)

    def __neg__(self) -> SymFloat:
        return SymFloat(node_of("neg", self))

    def __abs__(self) -> SymFloat:
        return SymFloat(node_of("abs", self))


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
            return self._element(node_of("element", self, as_kind(SymInt, index)))
        if index.step is not None:
            raise TypeError("a part of a symbolic list has no step")
        first = 0 if index.start is None else index.start
        if index.stop is None:
            return self._list("tail", self, as_kind(SymInt, first))
        return self._list("slice", self, as_kind(SymInt, first), as_kind(SymInt, index.stop))

    def _list(self, operation: str, *values: Symbol) -> SymList[Element]:
        return SymList(node_of(operation, *values), self._element)

    def __add__(self, other: SymList[Element] | Sequence[Any]) -> SymList[Element]:
        return self._list("concat", self, _list_like(self, other))

    def __radd__(self, other: Sequence[Any]) -> SymList[Element]:
        return self._list("concat", _list_like(self, other), self)

    def len(self) -> SymInt:
        """The number of elements."""
        return integer_of("len", self)

    def prod(self) -> Element:
        return self._element(node_of("prod", self))

    @overload
    def sum(self: SymList[SymBool]) -> SymInt: ...
    @overload
    def sum(self) -> Element: ...

    def sum(self) -> Any:
        """The sum; of flags, the number of true ones."""
        return (SymInt if self._element is SymBool else self._element)(node_of("sum", self))

    def min(self) -> Element:
        return self._element(node_of("min", self))

    def max(self) -> Element:
        return self._element(node_of("max", self))

    def drop(self, index: Int) -> SymList[Element]:
        """The list without the element at an index; an empty list stays empty."""
        return self._list("drop", self, as_kind(SymInt, index))

    def replace(self, index: Int, value: Any) -> SymList[Element]:
        """The list with the element at an index replaced by `value`."""
        element = number_of(value) if self._element is SymFloat else as_kind(self._element, value)
        return self._list("replace", self, as_kind(SymInt, index), element)

    def clamp_min(self, bound: Float) -> SymList[Element]:
        """The list with elements less than `bound` replaced by `bound`."""
        return self._list("maximum", self, number_of(bound))

    def clamp_max(self, bound: Float) -> SymList[Element]:
        """The list with elements greater than `bound` replaced by `bound`."""
        return self._list("minimum", self, number_of(bound))

    def padded(self, amounts: Ints) -> SymList[Element]:
        """Padded sizes: two amounts for each size, before and after, from the last size on."""
        return self._list("padded", self, ints_of(amounts))


class SymString(Symbol):
    """A string; it supports comparison only."""


class SymTensor(Symbol):
    """A tensor; for an argument that may be None and an unwanted result, ask `given` first."""

    def numel(self) -> SymInt:
        return integer_of("numel", self)

    def dim(self) -> SymInt:
        return integer_of("dim", self)

    def size(self, dim: Int) -> SymInt:
        """The size of a dimension, which may be negative; 1 for a tensor without dimensions."""
        return integer_of("size", self, dim)

    def stride(self, dim: Int) -> SymInt:
        """The stride of a dimension in elements; 1 for a tensor without dimensions."""
        return integer_of("stride", self, dim)

    @property
    def shape(self) -> SymInts:
        return SymList(node_of("shape", self), SymInt)

    def is_contiguous(self) -> SymBool:
        """Whether the elements are in row-major order without gaps."""
        return flag_of("is_contiguous", self)

    def element_size(self) -> SymInt:
        """The size of an element in bytes."""
        return integer_of("element_size", self)

    def is_floating_point(self) -> SymBool:
        return flag_of("is_floating_point", self)


class SymTensors(Symbol):
    """A list of tensors, which may contain None."""

    def __getitem__(self, index: Int) -> SymTensor:
        """The tensor at an index; a tensor that is not given if the list is shorter."""
        return SymTensor(node_of("tensor", self, as_kind(SymInt, index)))

    def given(self) -> SymList[SymBool]:
        """A flag per tensor: whether it is given."""
        return SymList(node_of("given_each", self), SymBool)

    def len(self) -> SymInt:
        return self.given().len()


SymInts: TypeAlias = SymList[SymInt]
Bool: TypeAlias = SymBool | bool
Int: TypeAlias = SymInt | int
Float: TypeAlias = SymFloat | SymInt | float
Ints: TypeAlias = SymInts | Sequence[Int]
Value: TypeAlias = Symbol | float | str | Sequence[Any]
Any_ = TypeVar("Any_", bound=Symbol)


# ---- Symbols of arguments and constants


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
            element if isinstance(element, SymBool) else number_of(element)
            for element in map(symbol, value)
        ]
        kinds = {type(element) for element in elements}
        of = SymFloat if SymFloat in kinds else SymBool if kinds == {SymBool} else SymInt
        return SymList(node_of("list", *elements), of)
    raise TypeError(f"{value!r} is no symbol, number, flag, string or list of those")


def as_tensor(value: Symbol) -> SymTensor:
    """Casts a symbol to a tensor, for type checkers."""
    return as_kind(SymTensor, value)


def as_flag(value: Symbol | bool) -> SymBool:
    """A flag as a symbol, because `~` of a `bool` is an integer."""
    return as_kind(SymBool, value)


def ints(values: Iterable[Int]) -> SymInts:
    """A list of integers or symbols as a symbol."""
    return SymList(node_of("list", *(as_kind(SymInt, value) for value in values)), SymInt)


# ---- Constructing nodes


def node_of(operation: str, *values: Symbol) -> Node:
    return Node(operation, [value.node for value in values])


def flag_of(operation: str, *values: Symbol) -> SymBool:
    return SymBool(node_of(operation, *values))


def integer_of(operation: str, *values: Int | Symbol) -> SymInt:
    operands = [
        value if isinstance(value, (SymList, SymTensor, SymTensors)) else as_kind(SymInt, value)
        for value in values
    ]
    return SymInt(node_of(operation, *operands))


def as_kind(kind: type[Any_], value: object) -> Any_:
    """A value as a symbol of a kind, or TypeError."""
    known = symbol(cast("Value", value))
    if isinstance(known, kind):
        return known
    if kind is SymInt and isinstance(known, SymBool):
        return kind(known.node)
    raise TypeError(f"{_name(known)} is given where {kind.__name__} is needed")


def number_of(value: object) -> _Number:
    known = symbol(cast("Value", value))
    if isinstance(known, SymBool):
        return SymInt(known.node)
    if not isinstance(known, _Number):
        raise TypeError(f"{_name(known)} is given where a number is needed")
    return known


def ints_of(value: Ints) -> SymInts:
    if isinstance(value, SymList) or not isinstance(value, Symbol):
        return value if isinstance(value, SymList) else ints(value)
    raise TypeError(f"{_name(value)} is given where a list is needed")


def one_of(node: Node, first: Symbol, second: Symbol) -> Symbol:
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
