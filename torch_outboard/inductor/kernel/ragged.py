"""Graphs of ragged tensors (`torch.jagged`), of which some sizes are no numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V

_FAILS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)


def fails_at_sizes(shape_env: Any) -> bool:
    """Whether a size of a graph's inputs is one at which PyTorch before 2.15 fails."""
    hints = shape_env.backed_var_to_val.values()
    return _FAILS and any(not hint.is_number for hint in hints)


def without_guards_of_ragged_sizes(features: SIMDKernelFeatures) -> SIMDKernelFeatures:
    """The features of a kernel, with 64-bit indices where 32-bit ones took a guard of open sizes.

    Reason: Dynamo does not know where to find the number of rows of a ragged tensor, and a guard of
    it ends in IndexError.
    Where: torch/fx/experimental/symbolic_shapes.py, `ShapeEnv.produce_guards_verbose`.
    Upstream: pytorch#193059.
    Can go: with 2.15.
    """
    if fails_at_sizes(V.graph.sizevars.shape_env):
        features.select_index_dtype = lambda: torch.int64
    return features
