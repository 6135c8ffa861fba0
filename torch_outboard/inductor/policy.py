"""How a graph is compiled: to device kernels, to code for the CPU, or operator by operator."""

from __future__ import annotations

import warnings
from functools import cache

from torch_outboard import _C
from torch_outboard.state import state


def placement_of_graphs(device: int) -> str:
    """Where compiled graphs of a device run.

    Returns:
        "device" for device kernels, "host" for Inductor's C++ code on shared memory, or "eager",
        which warns once.
    """
    if not _C.runs_code(device):
        why = "its driver has no compiler for kernels"
    elif _C.placement_setting(device) == "host":
        why = "OUTBOARD_PLACEMENT, or torch_outboard.placement, keeps its operators on the host"
    elif _C.placement_setting(device) == "auto" and _C.compiler_failure(device) is not None:
        why = "its compiler fails on a kernel that does nothing"
    else:
        return "device"
    if not _C.shares_host_memory(device):
        why += " and the host does not share its memory"
    elif problem := _problem_of_compiler():
        why += f" and Inductor finds no C++ compiler ({problem})"
    else:
        return "host"
    _warn_of_eager(device, why)
    return "eager"


@cache
def _warn_of_eager(device: int, why: str) -> None:
    warnings.warn(
        f"torch.compile runs graphs of {state.name}:{device} operator by operator, because {why}; "
        "results are the same, and nothing is fused",
        stacklevel=3,
    )


@cache
def _problem_of_compiler() -> str:
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception as problem:
        return str(problem) or type(problem).__name__
    return ""
