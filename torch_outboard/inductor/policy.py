"""How a graph is compiled: to device kernels, or call by call as in eager mode."""

from __future__ import annotations

import warnings
from functools import cache

from torch_outboard import _C
from torch_outboard.state import state


@cache
def compiles_kernels(device: int) -> bool:
    """Whether graphs become kernels of the device; warns once where they do not."""
    if not _C.runs_code(device):
        why = "its driver has no compiler for kernels"
    elif _C.way_setting(device) == "host":
        why = "OUTBOARD_WAY, or torch_outboard.ways, keeps its operators on the host"
    else:
        return True
    warnings.warn(
        f"torch.compile runs graphs of {state.name}:{device} operator by operator, because {why}; "
        "results are the same, and nothing is fused",
        stacklevel=2,
    )
    return False
