"""Custom operators whose kernel is an expression (`torch_outboard.kernel`), inside fused kernels.

The expression replaces the call, with the same meaning of its words as in eager mode. Calls that
the expression does not support, such as with other dtypes, and calls on other devices remain calls.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND

from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.dispatch.user_kernels import Expression, Registration, registrations
from torch_outboard.inductor.opencl.value_types import computed_dtype
from torch_outboard.state import state

_BUILT_IN = ("aten", "prims", "prim", "quantized")
_KINDS = {"promote": KIND.DEFAULT, "float": KIND.INT_TO_FLOAT}


def define_lowerings() -> None:
    """Registers lowerings for all custom operators that have an expression so far."""
    for name, known in registrations.items():
        if name.split("::")[0] in _BUILT_IN or not any(one.expression for one in known):
            continue
        operator = overload_of(name)
        before = lowering.lowerings.get(operator)
        taken = before is not None and operator not in lowering.fallbacks
        if taken or not _is_function_of_tensors(operator):
            continue
        lowering.register_lowering(operator, type_promotion_kind=None)(_lower(operator, name))
        lowering.fallbacks.discard(operator)


def expressions_in_use() -> tuple[str, ...]:
    """Part of the key of PyTorch's caches: all registered expressions."""
    return tuple(
        f"{name} {one.expression} {sorted(map(str, one.dtypes or ()))} {one.device}"
        for name, known in sorted(registrations.items())
        for one in known
    )


def _is_function_of_tensors(operator: torch._ops.OpOverload) -> bool:
    schema = operator._schema
    return (
        not schema.is_mutable
        and [str(one.type) for one in schema.returns] == ["Tensor"]
        and all(one.alias_info is None for one in (*schema.arguments, *schema.returns))
    )


def _lower(operator: torch._ops.OpOverload, name: str) -> Any:
    def lower(*arguments: Any, **named: Any) -> Any:
        node = V.graph.current_node
        declared = operator._schema.arguments
        given = {one.name: one.default_value for one in declared if one.has_default_value()}
        given |= dict(zip((one.name for one in declared), arguments, strict=False)) | named
        result = _inlined(name, given, node.meta["val"])
        if result is not None:
            return result
        # User kernels may rely on the strides of eager mode.
        arguments, named = lowering.constrain_to_fx_strides(node, *arguments, **named)
        return lowering.fallback_handler(operator, add_to_fallback_set=False)(*arguments, **named)

    return lower


def _inlined(name: str, given: dict[str, Any], expected: torch.Tensor) -> Any:
    """The result of an expression; None if none supports the call."""
    if expected.device.type != state.name:
        return None
    tensors = [value for value in given.values() if isinstance(value, ir.TensorBox)]
    if not tensors:
        return None
    registration = _registration(name, tensors[0].get_dtype(), expected.device.index or 0)
    expression = registration.expression if registration is not None else None
    if expression is None or any(x.get_device() != expected.device for x in tensors):
        return None
    if any(str(given.get(key)) != str(value) for key, value in expression.requires):
        return None
    operands = [given[operand] for operand in expression.operands]
    if not all(isinstance(x, ir.TensorBox) for x in operands):
        return None
    dtype = lowering.get_promoted_dtype(*operands, type_promotion_kind=_KINDS[expression.types])
    scalars = [given[scalar] for scalar in expression.scalars]
    if dtype == torch.bool or dtype.is_complex or not all(_suits(x, dtype) for x in scalars):
        return None
    if expected.dtype != (torch.bool if expression.result == "mask" else dtype):
        return None
    operands = lowering.broadcast_tensors(*operands)
    sizes = operands[0].get_size()
    if len(sizes) != expected.dim() or not all(
        V.graph.sizevars.statically_known_equals(ours, theirs)
        for ours, theirs in zip(sizes, expected.shape, strict=True)
    ):
        return None
    return _pointwise(expression, operands, scalars, dtype, expected)


def _registration(name: str, dtype: torch.dtype, device: int) -> Registration | None:
    """The kernel that csrc/dispatch/router.h chooses for a call."""
    for one in reversed(registrations.get(name, ())):
        if one.device in (-1, device) and (one.dtypes is None or dtype in one.dtypes):
            return one
    return None


def _suits(scalar: Any, dtype: torch.dtype) -> bool:
    """Whether a number has a value in the dtype of the computation."""
    if isinstance(scalar, (bool, int)):
        return True
    if isinstance(scalar, sympy.Expr):
        return bool(scalar.is_integer)
    return isinstance(scalar, float) and dtype.is_floating_point


def _pointwise(
    expression: Expression,
    operands: list[Any],
    scalars: list[Any],
    dtype: torch.dtype,
    expected: torch.Tensor,
) -> Any:
    loaders = [x.make_loader() for x in operands]
    computed = computed_dtype(dtype)
    letters = [chr(ord("a") + index) for index in range(len(operands))]
    words = [str(computed).removeprefix("torch."), expression.result, *letters]

    def inner(index: Any) -> Any:
        values = [load(index) for load in loaders]
        values += [
            ops.index_expr(x, computed) if isinstance(x, sympy.Expr) else ops.constant(x, computed)
            for x in scalars
        ]
        return ops.inline_asm_elementwise(
            *values,
            asm=expression.source,
            constraints=" ".join([*words, *expression.scalars]),
            dtype=torch.bool if expression.result == "mask" else computed,
        )

    return ir.Pointwise.create(
        device=expected.device,
        dtype=expected.dtype,
        inner_fn=inner,
        ranges=list(operands[0].get_size()),
    )
