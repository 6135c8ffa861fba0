"""Functions of one score and its place, which `flex_attention` is given, as texts in OpenCL C.

They come as graphs of operators on numbers. One with an operator that has no text here has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

aten, prims = torch.ops.aten, torch.ops.prims
# Types of numbers: V is that of scores.
VALUE, INTEGER, TRUTH = "V", "long", "int"


class NoTextError(NotImplementedError):
    """A graph has no text; the message says what is missing."""


@dataclass(frozen=True)
class Number:
    text: str
    kind: str

    def as_kind(self, kind: str) -> str:
        if kind == self.kind:
            return self.text
        return f"({self.text} != 0)" if kind == TRUTH else f"(({kind}){self.text})"


@dataclass(frozen=True)
class Buffer:
    """A tensor from outside, by its name in a kernel, and indices of its first dimensions."""

    name: str
    value: torch.Tensor
    indices: tuple[str, ...] = ()


def kind_of(dtype: torch.dtype) -> str:
    """The type of numbers of a dtype.

    Raises:
        NoTextError: if they are not real.
    """
    if dtype.is_complex:
        raise NoTextError(f"numbers of {dtype}")
    if dtype == torch.bool:
        return TRUTH
    return VALUE if dtype.is_floating_point else INTEGER


def _constant(value: Any) -> Number:
    if isinstance(value, bool):
        return Number(str(int(value)), TRUTH)
    if isinstance(value, int):
        return Number(f"({value}L)", INTEGER)
    if not isinstance(value, float):
        raise NoTextError(f"a {type(value).__name__}")
    if math.isnan(value):
        return Number("((V)NAN)", VALUE)
    if math.isinf(value):
        return Number(f"((V){'-' if value < 0 else ''}INFINITY)", VALUE)
    return Number(f"((V){value!r})", VALUE)


def _infix(sign: str) -> Callable[..., str]:
    return lambda x, y: f"({x} {sign} {y})"


def _call(name: str) -> Callable[..., str]:
    return lambda *values: f"{name}({', '.join(values)})"


def _overloads(*names: str) -> list[Any]:
    """Those of a pointwise operator that take tensors and numbers alone."""
    known = ("default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "self")
    return [
        getattr(getattr(aten, name), overload)
        for name in names
        for overload in getattr(aten, name).overloads()
        if overload in known
    ]


# Of operands in the type of the result.
_FUNCTIONS: dict[Any, Callable[..., str]] = {}
for _name in (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "erf", "exp",
    "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "pow", "rsqrt", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
):  # fmt: skip
    _FUNCTIONS.update(dict.fromkeys(_overloads(_name), _call(_name)))
for _name, _sign in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("bitwise_and", "&"), ("bitwise_or", "|"),
    ("bitwise_xor", "^"), ("logical_and", "&&"), ("logical_or", "||"), ("logical_xor", "!="),
):  # fmt: skip
    _FUNCTIONS.update(dict.fromkeys(_overloads(_name), _infix(_sign)))
for _name, _text in (
    ("neg", "(-{0})"), ("abs", "({0} < 0 ? -{0} : {0})"), ("square", "({0} * {0})"),
    ("relu", "({0} < 0 ? 0 : {0})"), ("sigmoid", "(1 / (1 + exp(-{0})))"),
    ("reciprocal", "(1 / {0})"), ("round", "rint({0})"), ("logical_not", "(!{0})"),
    ("maximum", "({0} > {1} || {0} != {0} ? {0} : {1})"),
    ("minimum", "({0} < {1} || {0} != {0} ? {0} : {1})"),
    ("where", "({0} != 0 ? {1} : {2})"),
):  # fmt: skip
    _FUNCTIONS.update(dict.fromkeys(_overloads(_name), _text.format))
_FUNCTIONS[aten.div.Tensor] = _infix("/")
_COMPARISONS: dict[Any, Callable[..., str]] = {}
for _name, _sign in (
    ("eq", "=="),
    ("ne", "!="),
    ("gt", ">"),
    ("ge", ">="),
    ("lt", "<"),
    ("le", "<="),
):
    _COMPARISONS.update(dict.fromkeys(_overloads(_name), _infix(_sign)))
_COPIES = {
    *_overloads("alias", "clone", "detach", "_to_copy"), prims.convert_element_type.default,
}  # fmt: skip
_WHOLE = _overloads("ceil", "floor", "trunc", "round")  # change no integer
_OF_TRUTHS = _overloads("logical_and", "logical_or", "logical_xor", "logical_not")
_NOT = _overloads("bitwise_not")
_REMAINDERS = _overloads("remainder")
_QUOTIENTS = [aten.div.Tensor_mode, aten.div.Scalar_mode, *_overloads("floor_divide")]
_POWERS = _overloads("pow")


class ScoreText:
    """Statements, and the texts of what a graph returns.

    Args:
        graph: operators on tensors without dimensions.
        inputs: what its placeholders are in a kernel.

    Raises:
        NoTextError: if something in it has no text.
    """

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[Number | Buffer]) -> None:
        self.lines: list[str] = []
        self.results: list[Number | None] = []
        self._values: dict[torch.fx.Node, Number | Buffer] = {}
        remaining = iter(inputs)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = next(remaining)
            elif node.op == "output":
                results = node.args[0]
                results = results if isinstance(results, (list, tuple)) else [results]
                self.results = [None if x is None else self._number(x) for x in results]
            elif node.op == "call_function":
                self._values[node] = self._of(node)
            else:
                raise NoTextError(f"{node.op} of {node.target}")

    @property
    def statements(self) -> str:
        return " ".join(self.lines)

    def _of(self, node: torch.fx.Node) -> Number | Buffer:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise NoTextError(f"{node.target}, which gives no tensor")
        if node.target is aten.index.Tensor:
            buffer, indices = node.args
            return self._element(buffer, indices)
        if value.dim():
            raise NoTextError(f"{node.target}, which gives a tensor with dimensions")
        return self._named(Number(self._text(node, kind_of(value.dtype)), kind_of(value.dtype)))

    def _named(self, number: Number) -> Number:
        name = f"ob_t{len(self.lines)}"
        self.lines.append(f"const {number.kind} {name} = {number.text};")
        return Number(name, number.kind)

    def _number(self, argument: Any) -> Number:
        if not isinstance(argument, torch.fx.Node):
            return _constant(argument)
        value = self._values[argument]
        if isinstance(value, Number):
            return value
        if len(value.indices) < value.value.dim():
            raise NoTextError("a tensor from outside as a whole")
        place = [f"{i} * {value.name}_layout.stride[{d}]" for d, i in enumerate(value.indices)]
        text = f"{value.name}_load({' + '.join(place) or '0'})"
        return self._named(Number(text, kind_of(value.value.dtype)))

    def _element(self, argument: Any, indices: Any) -> Buffer | Number:
        """A wrong index is reported, and 0 instead."""
        buffer = self._values[argument]
        if not isinstance(buffer, Buffer):
            raise NoTextError("an index of a number")
        places = list(buffer.indices)
        for index in indices:
            if index is None or self._number(index).kind == TRUTH:
                raise NoTextError("an index that is no number")
            size = f"{buffer.name}_layout.size[{len(places)}]"
            place = self._named(
                Number(f"ob_wrapped_index({self._number(index).as_kind(INTEGER)}, {size})", INTEGER)
            )
            self.lines.append(f"if ({place.text} < 0) {{ OB_REPORT }}")
            places.append(self._named(Number(f"max({place.text}, 0L)", INTEGER)).text)
        return Buffer(buffer.name, buffer.value, tuple(places))

    def _text(self, node: torch.fx.Node, kind: str) -> str:
        target, arguments = node.target, list(node.args)
        if target in _COPIES:
            return self._number(arguments[0]).as_kind(kind)
        if target in (aten.full.default, aten.scalar_tensor.default, aten.full_like.default):
            return _constant(arguments[-1]).as_kind(kind)
        if target in (aten.zeros_like.default, aten.ones_like.default):
            return _constant(int(target is aten.ones_like.default)).as_kind(kind)
        if node.kwargs.get("alpha", 1) != 1:
            raise NoTextError(f"{target} with alpha")
        if target in (aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default):
            return self._clamped(node, kind)
        numbers = [self._number(x) for x in arguments]
        if target in _COMPARISONS:
            common = next(k for k in (VALUE, INTEGER, TRUTH) if any(n.kind == k for n in numbers))
            return _COMPARISONS[target](*(n.as_kind(common) for n in numbers))
        if target in _WHOLE and kind == INTEGER:
            return numbers[0].text
        if target in _OF_TRUTHS:
            return _FUNCTIONS[target](*(n.as_kind(TRUTH) for n in numbers))
        if target in _NOT:
            return f"(!{numbers[0].text})" if kind == TRUTH else f"(~{numbers[0].text})"
        if target is aten.where.self:
            return _FUNCTIONS[target](numbers[0].text, *(n.as_kind(kind) for n in numbers[1:]))
        given = [n.as_kind(kind) for n in numbers]
        if target in _REMAINDERS:
            return _down(given, kind, "remainder")
        if target in _QUOTIENTS:
            mode = node.kwargs.get("rounding_mode", "floor")
            if mode is None:
                return f"({given[0]} / {given[1]})"
            return _down(given, kind, "quotient") if mode == "floor" else _towards_zero(given, kind)
        if (target in _POWERS and kind != VALUE) or target not in _FUNCTIONS:
            raise NoTextError(str(target))
        return _FUNCTIONS[target](*given)

    def _clamped(self, node: torch.fx.Node, kind: str) -> str:
        text = self._number(node.args[0]).as_kind(kind)
        bounds = [*node.args[1:], None, None][:2]
        if node.target is aten.clamp_max.default:
            bounds.reverse()
        for sign, name, bound in zip("<>", ("min", "max"), bounds, strict=True):
            bound = node.kwargs.get(name, bound)
            if bound is not None:
                text = self._named(Number(text, kind)).text
                limit = _constant(bound).as_kind(kind)
                text = f"({text} {sign} {limit} ? {limit} : {text})"
        return text


def _down(given: Sequence[str], kind: str, what: str) -> str:
    x, y = given
    if kind == VALUE:
        return f"floor({x} / {y})" if what == "quotient" else f"({x} - floor({x} / {y}) * {y})"
    if what == "quotient":
        return _trapless(
            f"({x} / {y} - (({x} % {y} != 0) && (({x} < 0) != ({y} < 0))))", f"(-{x})", y
        )
    return _trapless(
        f"({x} % {y} + (({x} % {y} != 0 && ({x} < 0) != ({y} < 0)) ? {y} : 0))", "0L", y
    )


def _towards_zero(given: Sequence[str], kind: str) -> str:
    x, y = given
    return f"trunc({x} / {y})" if kind == VALUE else _trapless(f"({x} / {y})", f"(-{x})", y)


def _trapless(text: str, of_minus_one: str, divisor: str) -> str:
    """Of 0 there is nothing right to give, and the least number has no opposite."""
    return f"({divisor} == 0 ? 0L : {divisor} == -1 ? {of_minus_one} : {text})"
