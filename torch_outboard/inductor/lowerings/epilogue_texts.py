"""Operators that an epilogue can have, as texts in the words of the table of scalar functions.

A value is a `T`, a mask an `M` (csrc/device_kernels/pointwise/scalar_functions.h); nodes whose
dtype is bool are masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_outboard.ops.functions.table import scalar_only

aten, prims = torch.ops.aten, torch.ops.prims

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# What operands and results can be.
DTYPES = (*FLOATS, torch.bool)


class Unfit(Exception):
    """An operator, or an operand, that an epilogue cannot have."""


def _call(name: str) -> Callable[..., str]:
    return lambda *values: f"ob_{name}({', '.join(values)})"


def _infix(operator: str) -> Callable[..., str]:
    return lambda x, y: f"({x} {operator} {y})"


def _names(names: str, overloads: str = "default") -> list[tuple[str, Any]]:
    return [
        (name, getattr(getattr(aten, name), overload))
        for name in names.split()
        for overload in overloads.split()
    ]


def _clamp(x: str, low: str | None = None, high: str | None = None) -> str:
    text = x if low is None else f"ob_maximum({x}, {low})"
    return text if high is None else f"ob_minimum({text}, {high})"


_BOTH = "Tensor Scalar"
# Of values.
_FUNCTIONS: dict[Any, Callable[..., str]] = {
    operator: _call(name)
    for name, operator in _names(
        "abs cos erf exp expm1 log log1p neg reciprocal relu rsqrt sigmoid sin sqrt tanh maximum "
        "minimum"
    )
}
for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
    _FUNCTIONS |= {operator: _infix(_sign) for _, operator in _names(_name, _BOTH)}
_FUNCTIONS |= {
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: lambda x, high: _clamp(x, None, high),
}
_COMPARISONS: dict[Any, Callable[..., str]] = {
    operator: _infix(sign)
    for name, sign in (
        ("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="),
    )
    for _, operator in _names(name, _BOTH)
}  # fmt: skip
# Of masks.
_LOGIC: dict[Any, Callable[..., str]] = {
    aten.logical_and.default: _infix("&"), aten.logical_or.default: _infix("|"),
    aten.bitwise_and.Tensor: _infix("&"), aten.bitwise_or.Tensor: _infix("|"),
    aten.logical_not.default: lambda m: f"(~{m})", aten.bitwise_not.default: lambda m: f"(~{m})",
}  # fmt: skip


def as_value(text: str, is_mask: bool) -> str:
    """A value; of a mask, 1 and 0."""
    return f"({text} ? C(1) : C(0))" if is_mask else text


def as_mask(text: str, is_mask: bool) -> str:
    """A mask; of a value, whether it is not 0."""
    return text if is_mask else f"({text} != C(0))"


def number(value: float) -> str:
    """A constant. Raises Unfit for those that have no literal."""
    if not math.isfinite(value):
        raise Unfit
    return f"C({float(value)!r}f)"


def expression(node: torch.fx.Node, operand: Callable[[Any], tuple[str, bool]]) -> str:
    """The text of a pointwise operator.

    Args:
        node: the call.
        operand: gives the text of an argument and whether it is a mask.

    Raises:
        Unfit: if it has none; also what `operand` raises.
    """
    if node.op != "call_function" or node.kwargs:
        raise Unfit
    target, arguments = node.target, node.args

    def values() -> list[Any]:
        return [None if x is None else as_value(*operand(x)) for x in arguments]

    if target is prims.convert_element_type.default:
        text, is_mask = operand(arguments[0])
        return as_mask(text, is_mask) if arguments[1] is torch.bool else as_value(text, is_mask)
    if target is aten.where.self:
        mask, x, y = map(operand, arguments)
        if not mask[1]:
            raise Unfit
        return f"({mask[0]} ? {as_value(*x)} : {as_value(*y)})"
    if target is aten.pow.Tensor_Scalar and arguments[1] in (2, 3):
        factors = values()[:1] * (2 if arguments[1] == 2 else 3)
        return f"({' * '.join(factors)})"
    if target in _LOGIC:
        masks = [operand(x) for x in arguments]
        if not all(is_mask for _, is_mask in masks):
            raise Unfit
        return _LOGIC[target](*(text for text, _ in masks))
    function = _FUNCTIONS.get(target) or _COMPARISONS.get(target)
    if function is None:
        raise Unfit
    try:
        text = function(*values())
    except TypeError:  # an argument more than the text has, such as a factor
        raise Unfit from None
    if any(f"ob_{one}(" in text for one in scalar_only()):
        raise Unfit
    return text


def is_known(node: torch.fx.Node) -> bool:
    """Whether a node is one of the pointwise operators above."""
    known = (*_FUNCTIONS, *_COMPARISONS, *_LOGIC, aten.where.self, aten.pow.Tensor_Scalar)
    return node.op == "call_function" and node.target in (
        *known,
        prims.convert_element_type.default,
    )
