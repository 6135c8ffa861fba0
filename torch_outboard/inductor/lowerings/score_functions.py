"""Lowers `score_mod` and `mask_mod` of `flex_attention` to OpenCL C.

Both are graphs of operators on 0-dimensional tensors. Inductor lowers them to the operations of
overrides.py, as it lowers a pointwise kernel. A graph that allocates memory is not lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.graph import GraphLowering
from torch._inductor.subgraph_lowering import PointwiseSubgraphLowering
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from torch_outboard.inductor.kernel.body import OpenCLKernel
from torch_outboard.inductor.overrides import operand

_INDICES: ValueRanges[Any] = ValueRanges(0, (1 << 31) - 1)


def lowered(
    module: torch.fx.GraphModule,
    scalars: Sequence[str],
    buffers: Sequence[tuple[str, torch.Tensor] | int],
    dtype: torch.dtype,
) -> tuple[str, str]:
    """The statements of a graph, and the expression of its first result.

    Args:
        module: a graph of operators.
        scalars: sources of its first inputs.
        buffers: its other inputs: tensors with their names in the kernel, and numbers.
        dtype: dtype of the expression.

    Raises:
        NotImplementedError: if Inductor cannot lower the graph to one expression.
    """
    examples = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    graph = GraphLowering(module, shape_env=V.fake_mode.shape_env)
    device = examples[0].device
    with V.set_graph_handler(graph), graph.set_current_device(device), _Body() as body:
        given = [_scalar(body, *x, device) for x in zip(scalars, examples, strict=False)]
        given += [x if isinstance(x, int) else _buffer(graph, *x) for x in buffers]
        function = _Function(module, graph)
        with V.set_graph_handler(function):  # type: ignore[arg-type]
            try:
                function.run(*given)
                results = function.graph_outputs
                result = results[0] if isinstance(results, (list, tuple)) else results
                value = result.make_loader()(())  # None has no loader
            except Exception as problem:  # lowerings assert what they need
                raise NotImplementedError(str(problem)) from problem
        lines = [*body.loads._lines, *body.compute._lines]
        return " ".join(map(str, lines)), operand(getattr(value, "value", value), dtype, False)


def _scalar(body: _Body, source: str, like: torch.Tensor, device: torch.device) -> ir.TensorBox:
    bounds = ValueRanges.unknown() if like.is_floating_point() else _INDICES
    value = body.cse.generate(body.compute, source, bounds=bounds, dtype=like.dtype)
    return _computed(value, like.dtype, device)


def _computed(value: Any, dtype: torch.dtype, device: torch.device) -> ir.TensorBox:
    return ir.Pointwise.create(device=device, dtype=dtype, inner_fn=lambda _: value, ranges=[])


def _buffer(graph: GraphLowering, name: str, value: torch.Tensor) -> ir.TensorBox:
    """A tensor whose sizes and strides the kernel reads when it runs."""
    sizes, strides = (
        [
            sympy.Symbol(f"{name}_layout.{of}[{d}]", integer=True, nonnegative=True)
            for d in range(value.dim())
        ]
        for of in ("size", "stride")
    )
    layout = ir.FixedLayout(value.device, value.dtype, sizes, strides)
    graph.graph_inputs[name] = box = ir.TensorBox.create(ir.InputBuffer(name=name, layout=layout))
    return box


class _Function(PointwiseSubgraphLowering):
    """Computes each scalar once; PyTorch's class repeats the computation for each use."""

    def run_node(self, node: torch.fx.Node) -> Any:
        self.root_graph.current_node = node
        if node.target is not torch.ops.aten.index.Tensor and any(map(_has_sizes, node.args)):
            raise NotImplementedError("a tensor from outside as a whole")
        result = super().run_node(node)
        if isinstance(result, ir.TensorBox) and not result.get_size():
            value = result.make_loader()(())
            return _computed(value, result.get_dtype(), result.get_device_or_error())
        return result


def _has_sizes(argument: Any) -> bool:
    value = argument.meta["val"] if isinstance(argument, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dim() > 0


class _Body(OpenCLKernel):
    """A kernel body that reads tensors with the macros of kernel templates."""

    index_torch_dtype = torch.int64

    def __init__(self) -> None:
        super().__init__({"x": sympy.S.One}, SIMDKernelFeatures([], sympy.S.One))

    def load(self, name: str, index: sympy.Expr) -> Any:
        dtype = V.graph.get_dtype(name)
        source = f"{name}_load({self.scalar_index(index)})"
        source = f"({source} != 0)" if dtype == torch.bool else source
        return self.cse.generate(self.compute, source, dtype=dtype)

    def check_divisor(self, divisor: Any, dtype: torch.dtype) -> None:
        """Does nothing: a division by zero has an unspecified value."""
