"""Inductor's scheduling with this backend's kernels: fusion, tiling, definition of kernels."""

from __future__ import annotations

import itertools
import re
from typing import Any

import sympy
import torch
from torch._inductor import config, metrics
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv

from torch_outboard.inductor.kernel.body import OpenCLKernel, write_nan_checks
from torch_outboard.inductor.kernel.combo import ComboKernel, combo_kernels
from torch_outboard.inductor.kernel.indices import inner_size
from torch_outboard.inductor.kernel.loops import can_be_one_kernel, without_ends_of_sorts
from torch_outboard.inductor.target import target_of

# A frame of a traceback: file, line number, source line.
_LINE = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]*)')


def _origins(node_schedule: Any) -> tuple[str, ...]:
    """The nodes of the graph that a kernel computes, each with its Python source line."""
    nodes = dict.fromkeys(
        origin
        for node in node_schedule
        if getattr(node, "node", None) is not None
        for origin in node.node.get_origins()
    )
    described = []
    for node in sorted(nodes):
        lines = _LINE.findall(node.meta.get("stack_trace") or "")
        described.append(node.name + (" ({}:{}: {})".format(*lines[-1]) if lines else ""))
    return tuple(described)


class OpenCLScheduling(SIMDScheduling):
    """Writes kernels in OpenCL C; all kernels of a graph are in one program."""

    kernel_type = OpenCLKernel

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        features = OrderedSet(
            [
                BackendFeature.MASKED_SCATTER_WITH_INDEX,
                BackendFeature.FOREACH,
                BackendFeature.BUCKETIZE,
            ]
        )
        # PyTorch's lowerings of selections by sorts use lines of any length.
        if not getattr(config.triton, "decompose_sort_ops", False):
            features.add(BackendFeature.SORT)
        if target_of(device).group == 1:
            # On a GPU a work-item may read an element that another one overwrites.
            features.add(BackendFeature.INPLACE_BUFFERS)
            # Work-groups do not scan.
            features |= OrderedSet([BackendFeature.SCAN, BackendFeature.TUPLE_REDUCTION])
        return features

    @classmethod
    def get_tiling_and_scores(
        cls,
        node_schedule: Any,
        numel: sympy.Expr,
        reduction_numel: sympy.Expr = sympy.S.One,
        coalesce_analysis: Any = None,
    ) -> tuple[dict[str, sympy.Expr], dict[str, sympy.Expr] | None]:
        """One range for results, or two if memory is not contiguous beyond the inner loop."""
        one = cls.create_tiling([numel], [reduction_numel])
        inner = inner_size(node_schedule, reduction_numel != 1)
        sizes = V.graph.sizevars
        if (
            inner is None
            or sizes.statically_known_equals(inner, numel)
            or not sizes.statically_known_multiple_of(numel, inner)
        ):
            return one, None
        two = cls.create_tiling([FloorDiv(numel, inner), inner], [reduction_numel])
        if cls.tiling_is_compatible(node_schedule, numel, reduction_numel, two):
            return two, None
        return one, None

    def can_fuse(self, node1: Any, node2: Any) -> bool:
        """Refuses kernels with more tensors than the device allows, or a sort and a reduction."""
        if not can_be_one_kernel([*node1.get_nodes(), *node2.get_nodes()]):
            return False
        if not (node1.is_foreach() or node2.is_foreach()):
            accesses = (node.read_writes.reads_and_writes() for node in (node1, node2))
            names = {access.name for access in itertools.chain(*accesses)}
            target = target_of(node1.get_device())
            if (len(names) + 1) * target.pointer_bytes > target.parameter_bytes:
                return False
        return bool(super().can_fuse(node1, node2))

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    def generate_node_schedule(
        self, nodes: Any, numel: sympy.Expr, rnumel: sympy.Expr
    ) -> list[Any]:
        return without_ends_of_sorts(super().generate_node_schedule(nodes, numel, rnumel))

    def codegen_combo_kernel(self, combo_kernel_node: Any) -> None:
        """Writes independent nodes in as few launches as the limit of parameters allows."""
        removed = getattr(self.scheduler, "removed_ops", ())
        kernels = []
        for piece in combo_kernel_node.get_subkernel_nodes():
            nodes = [node for node in piece.get_nodes() if node.get_name() not in removed]
            if nodes:
                kernels.append(self._generate_piece(nodes))
        launches = combo_kernels(kernels)
        metrics.generated_kernel_count += len(launches) - len(kernels)  # a piece is not a launch
        for kernel in launches:
            schedule = kernel.nodes()
            name = self.define_kernel(kernel.codegen_kernel(), schedule, kernel)
            self.codegen_comment(schedule, name)
            kernel.call_kernel(name)
            if config.nan_asserts:
                write_nan_checks(piece.kernel for piece in kernel.pieces)
        self.free_buffers_in_scheduler()

    def _generate_piece(self, nodes: list[Any]) -> OpenCLKernel:
        """A kernel with the body of some nodes, which it marks as run."""
        _, (numel, reduction_numel) = max(nodes, key=lambda node: int(node.is_reduction())).group
        schedule = self.generate_node_schedule(nodes, numel, reduction_numel)
        tiling, _ = self.get_tiling_and_scores(schedule, numel, reduction_numel)
        features = SIMDKernelFeatures(schedule, numel, reduction_numel)
        kernel = self.kernel_type(tiling, features=features, shares_source=True)
        self.codegen_node_schedule_with_kernel(schedule, kernel)
        with V.set_kernel_handler(kernel):
            for node in features.scheduler_nodes():
                node.mark_run()
        V.graph.removed_buffers |= kernel.removed_buffers
        V.graph.inplaced_to_remove |= kernel.inplaced_to_remove
        return kernel

    def define_kernel(
        self, src_code: str, node_schedule: Any, kernel: OpenCLKernel | ComboKernel
    ) -> str:
        wrapper = V.graph.wrapper_code
        name, registration = wrapper.graph_kernels.define(
            wrapper,
            src_code,
            kernel.parameters(),
            kernel.launch_properties(),
            _origins(node_schedule),
            V.graph.get_current_device_or_throw().index or 0,
        )
        if registration:
            origins, detailed = get_kernel_metadata(node_schedule, wrapper)
            lines = f"{origins}\n{detailed}".splitlines()
            comment = "\n".join(line for line in lines if line.startswith("#"))
            wrapper.define_kernel(name, registration, comment, gpu=False)
        return str(name)

    def flush(self) -> None:
        """Does nothing: kernels are defined when they are generated."""
