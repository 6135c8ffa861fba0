"""Operators whose lowering differs for the device, and custom operators with an expression.

Convolutions: the device's kernel adds the bias. Inductor would add it in a separate kernel, and
store the sum once more unless only a pointwise kernel follows.

Complex numbers: kernels of graphs do not compute with them, eager kernels do. Inductor calls eager
kernels for overloads of operators with complex arguments. But its passes insert calls of packets,
such as the copy that as_strided_scatter writes into.

Embedding bags: PyTorch's meta function describes the results of CUDA's kernel. The device's results
have the sizes of CPU's: bag_size has no entry for the last offset, and max_indices has elements in
all modes. Compiled code checks these sizes, from 2.14 on empty ones, too.

Custom operators whose kernel is an expression (`torch_outboard.kernel`): the expression replaces
the call inside fused kernels, with the same meaning of its words as in eager mode. Calls that the
expression does not support, such as with other dtypes, and calls on other devices remain calls.
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

aten = torch.ops.aten
# Packets that passes of Inductor insert, with the overload that they mean.
_PACKETS = {aten.clone: aten.clone.default}
_BAGS = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
_MAXIMUM = 2  # the mode "max"
_SIZES, _PLACES = 2, 3  # positions of bag_size and max_indices among the results
_BUILT_IN = ("aten", "prims", "prim", "quantized")
_KINDS = {"promote": KIND.DEFAULT, "float": KIND.INT_TO_FLOAT}


def define_lowerings() -> None:
    """Changes the lowerings of PyTorch's operators, once, and adds those of new expressions."""
    convolution = aten.convolution.default
    _change(convolution, _with_bias(lowering.lowerings[convolution]))
    for packet, overload in _PACKETS.items():
        _change(packet, _by_eager_kernels(overload, lowering.lowerings[packet]))
    for overload in _BAGS:
        _change(overload, _with_sizes_of_bags(overload, lowering.lowerings[overload]))
    _define_expressions()


def _change(operator: Any, lower: Any) -> None:
    if not hasattr(lowering.lowerings[operator], "outboard"):
        lower.outboard = True
        lowering.lowerings[operator] = lower


def _is_ours(x: Any) -> bool:
    return isinstance(x, ir.IRNode) and x.get_device().type == state.name


def _with_bias(original: Any) -> Any:
    """Passes the bias to convolutions of the device."""
    call = lowering.fallback_handler(aten.convolution.default, add_to_fallback_set=False)

    def lower(x: Any, weight: Any, bias: Any, *arguments: Any, **named: Any) -> Any:
        chosen = call if _is_ours(x) and bias is not None else original
        return chosen(x, weight, bias, *arguments, **named)

    return lower


def _by_eager_kernels(overload: torch._ops.OpOverload, original: Any) -> Any:
    """Calls eager kernels for complex tensors of the device."""

    def lower(x: Any, *arguments: Any, **named: Any) -> Any:
        if _is_ours(x) and x.get_dtype().is_complex:
            call = lowering.fallback_handler(overload, add_to_fallback_set=False)
            return call(x, *arguments, **named)
        return original(x, *arguments, **named)

    return lower


def describe_bags(graph: torch.fx.Graph) -> None:
    """Corrects the described size of bag_size, before the graph is split."""
    for node in graph.nodes:
        if node.target in _BAGS and node.meta["val"][0].device.type == state.name:
            values = list(node.meta["val"])
            values[_SIZES] = values[_SIZES][: values[0].shape[0]]
            node.meta["val"] = tuple(values)
            for user in node.users:
                user.meta["val"] = values[user.args[1]]


def _with_sizes_of_bags(overload: torch._ops.OpOverload, original: Any) -> Any:
    """Corrects the size of bag_size in graphs of the device, and empties unused max_indices."""
    mode_at = [argument.name for argument in overload._schema.arguments].index("mode")

    def lower(weight: Any, *arguments: Any, **named: Any) -> Any:
        results = list(original(weight, *arguments, **named))
        if not _is_ours(weight):
            return results
        sizes, places = results[_SIZES], results[_PLACES]
        sizes.data.data.layout.size = [results[0].get_size()[0]]
        given = (weight, *arguments)
        mode = given[mode_at] if len(given) > mode_at else named.get("mode", 0)
        if mode != _MAXIMUM:
            dtype, device = places.get_dtype(), places.get_device()
            results[_PLACES] = lowering.empty([0], dtype=dtype, device=device)
        return results

    return lower


# ---- Expressions


def _define_expressions() -> None:
    """Registers lowerings for all custom operators that have an expression so far."""
    for name, known in registrations.items():
        if name.split("::")[0] in _BUILT_IN or not any(one.expression for one in known):
            continue
        operator = overload_of(name)
        before = lowering.lowerings.get(operator)
        taken = before is not None and operator not in lowering.fallbacks
        if taken or not _is_function_of_tensors(operator):
            continue
        lowering.register_lowering(operator, type_promotion_kind=None)(
            _by_expression(operator, name)
        )
        lowering.fallbacks.discard(operator)


def texts_in_use() -> tuple[str, ...]:
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


def _by_expression(operator: torch._ops.OpOverload, name: str) -> Any:
    def lower(*arguments: Any, **named: Any) -> Any:
        node = V.graph.current_node
        given = {
            argument.name: argument.default_value
            for argument in operator._schema.arguments
            if argument.has_default_value()
        }
        names = (argument.name for argument in operator._schema.arguments)
        given |= dict(zip(names, arguments, strict=False))
        given |= named
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
    letters = [chr(ord("a") + place) for place in range(len(operands))]
    words = [str(computed).removeprefix("torch."), expression.result, *letters]

    def inner(index: Any) -> Any:
        values = [load(index) for load in loaders]
        values += [
            ops.index_expr(x, computed) if isinstance(x, sympy.Expr) else ops.constant(x, computed)
            for x in scalars
        ]
        return ops.inline_asm_elementwise(
            *values,
            asm=expression.text,
            constraints=" ".join([*words, *expression.scalars]),
            dtype=torch.bool if expression.result == "mask" else computed,
        )

    return ir.Pointwise.create(
        device=expected.device,
        dtype=expected.dtype,
        inner_fn=inner,
        ranges=list(operands[0].get_size()),
    )
