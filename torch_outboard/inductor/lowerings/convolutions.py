"""Convolutions with what follows them, in the kernel that stores results.

A bias is always given to the engine's kernel: Inductor would add it in one of its own, and store
the sum once more where more than a kernel for elements follows.

With `max-autotune`, convolutions in 1 to 3 dimensions, also with groups and transposed ones, and
their epilogues become one operator, if measuring finds that faster than whatever eager mode calls
and a kernel for the rest. Sizes may be open: they are measured as they were when the graph was
traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import ir, lowering
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_outboard import _C
from torch_outboard.inductor.lowerings import epilogues
from torch_outboard.inductor.lowerings.epilogue_texts import FLOATS
from torch_outboard.inductor.lowerings.epilogue_writer import Node, same, same_sizes, value_of
from torch_outboard.ops.products.texts import group_text, patch_text, plane_text
from torch_outboard.state import state

aten = torch.ops.aten
_LIBRARY = torch.library.Library("outboard_convolutions", "DEF")
_GIVEN = 9  # arguments of a convolution
_MOST_ELEMENTS = 2**31 - 4096  # of a tensor: kernels have indices of 32 bits


def define() -> None:
    """Defines the operator that convolutions become."""
    _LIBRARY.define(
        "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
        f"{epilogues.SCHEMA}) -> Tensor[]"
    )
    _LIBRARY.impl("convolution", _convolution, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "outboard_convolutions::convolution", _fake_convolution, lib=_LIBRARY
    )
    lowering.make_fallback(torch.ops.outboard_convolutions.convolution.default, warn=False)


def define_lowerings() -> None:
    """Gives convolutions of the device their bias."""
    original = lowering.lowerings[aten.convolution.default]
    if not hasattr(original, "gives_bias"):
        lowering.lowerings[aten.convolution.default] = _lower(original)


def _lower(original: Any) -> Any:
    call = lowering.fallback_handler(aten.convolution.default, add_to_fallback_set=False)

    def lower(x: Any, weight: Any, bias: Any, *arguments: Any, **named: Any) -> Any:
        ours = isinstance(x, ir.IRNode) and x.get_device().type == state.name
        chosen = call if ours and bias is not None else original
        return chosen(x, weight, bias, *arguments, **named)

    lower.gives_bias = True
    return lower


@cache
def _kernel() -> _C.FusedConvolution:
    _C.load_device_kernels()
    return _C.FusedConvolution(patch_text(), plane_text(), group_text())


def _convolution(*arguments: Any) -> list[torch.Tensor]:
    given = arguments[:_GIVEN]
    operands, of_row, row_values, body, places, results = arguments[_GIVEN:]
    texts = epilogues.texts(of_row, row_values, body, places)
    return _kernel()(*given, texts, operands, epilogues.dtypes(results))  # type: ignore[call-arg]


def _fake_convolution(*arguments: Any) -> list[torch.Tensor]:
    result = aten.convolution(*arguments[:_GIVEN])
    return [torch.empty_like(result, dtype=dtype) for dtype in epilogues.dtypes(arguments[-1])]


class _Places:
    """Of images: rows are channels."""

    def __init__(self, convolution: Node) -> None:
        self.value = value_of(convolution)

    def follows(self, value: torch.Tensor) -> bool:
        return same_sizes(value.shape, self.value.shape)

    def lies_alike(self, value: torch.Tensor) -> bool:
        layouts = zip(value.shape, value.stride(), self.value.stride(), strict=True)
        return all(same(size, 1) or same(ours, other) for size, ours, other in layouts)

    def of(self, value: torch.Tensor, user: torch.Tensor) -> str:
        if self.follows(value):
            return "e"
        if same(value.numel(), 1):
            return "r"
        channel = value.dim() - self.value.dim() + 1
        if channel < 0 or not same(value.shape[channel], self.value.shape[1]):
            return ""
        return "r" if same(value.numel(), self.value.shape[1]) else ""

    def length(self, place: str) -> Any:
        return self.value.shape[1] if place == "r" else 0


def fuse(graph: torch.fx.Graph) -> bool:
    """Gives convolutions their epilogues where that is faster; whether there was one."""
    found = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.convolution.default:
            continue
        if not _suits(node):
            continue
        epilogue = epilogues.find(node, _Places(node))
        if epilogue is not None and _pays(epilogue):
            epilogues.replace(
                epilogue, torch.ops.outboard_convolutions.convolution.default, node.args
            )
            counters[state.name]["fused_convolutions"] += 1
            found = True
    return found


def _tensors(convolution: Node) -> list[torch.Tensor]:
    return [value_of(node) for node in convolution.args[:3] if isinstance(node, Node)]


def _suits(convolution: Node) -> bool:
    """Whether the kit's own kernels take a convolution."""
    if convolution.kwargs or len(convolution.args) != _GIVEN:
        return False
    value, tensors = value_of(convolution), _tensors(convolution)
    sizes = [epilogues.hints(tensor.shape) for tensor in (value, *tensors)]
    return (
        value.device.type == state.name
        and value.dtype in FLOATS
        and 3 <= value.dim() <= 5
        and all(tensor.dtype == value.dtype for tensor in tensors)
        and all(size is not None and _elements(size) < _MOST_ELEMENTS for size in sizes)
    )


def _elements(sizes: Sequence[int]) -> int:
    return int(torch.Size(sizes).numel())


# ---- Measuring


def _pays(epilogue: epilogues.Epilogue) -> bool:
    """Whether one kernel is faster; what follows the convolution costs the same in both ways."""
    tensors = _tensors(epilogue.root)
    layouts = tuple(
        (epilogues.hints(tensor.shape), epilogues.hints(tensor.stride())) for tensor in tensors
    )
    if any(sizes is None or strides is None for sizes, strides in layouts):
        return False
    rest = tuple(tuple(x) if isinstance(x, (list, tuple)) else x for x in epilogue.root.args[3:])
    if any(not isinstance(x, (tuple, bool, int)) for x in rest):
        return False
    return _measured(tensors[0].device, tensors[0].dtype, layouts, rest, epilogue.costs)


@cache
def _measured(
    device: torch.device, dtype: torch.dtype, layouts: Sequence[Any], rest: tuple[Any, ...],
    costs: epilogues.Costs,
) -> bool:  # fmt: skip
    with unset_fake_temporarily(), torch.no_grad():
        given: list[torch.Tensor | None] = [
            torch.empty_strided(sizes, strides, dtype=dtype, device=device).fill_(0.5)
            for sizes, strides in layouts
        ]
        given += [None] * (3 - len(given))
        other = torch.ones_like(aten.convolution(*given, *rest))
        stand_in = epilogues.StandIn(costs, other)

        def separate() -> None:
            stand_in.follow(aten.convolution(*given, *rest))

        def together() -> None:
            torch.ops.outboard_convolutions.convolution(*given, *rest, *stand_in.arguments)

        return epilogues.is_faster(together, separate)
