"""Graphs of ragged tensors (`torch.jagged`), of which some sizes are no numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V


def has_ragged_sizes(shape_env: Any) -> bool:
    """Whether a size of a graph's inputs is that of a ragged dimension."""
    return any(not hint.is_number for hint in shape_env.backed_var_to_val.values())


def without_guards_of_ragged_sizes(features: SIMDKernelFeatures) -> SIMDKernelFeatures:
    """The features of a kernel, with 64-bit indices where 32-bit ones took a guard of open sizes.

    Dynamo does not know where to find the number of rows of a ragged tensor, and a guard of it ends
    in IndexError (pytorch#193059).
    """
    if has_ragged_sizes(V.graph.sizevars.shape_env):
        features.select_index_dtype = lambda: torch.int64
    return features
