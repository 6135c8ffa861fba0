"""How a graph is compiled: to device kernels, to code for the CPU, or operator by operator."""

from __future__ import annotations

import warnings
from functools import cache

from torch_outboard import _C
from torch_outboard.state import state


@cache
def way_of_graphs(device: int) -> str:
    """ "kernels" of the device, "host" for Inductor's C++ code on shared memory, "eager", or
    "measured", which is whatever is fastest (ways/choice.py).

    Warns once of "eager".
    """
    if not _C.runs_code(device):
        why = "its driver has no compiler for kernels"
    elif _C.way_setting(device) == "host":
        why = "OUTBOARD_WAY, or torch_outboard.ways, keeps its operators on the host"
    elif _C.way_setting(device) == "device" or not _C.shares_host_memory(device):
        return "kernels"
    else:
        return "kernels" if _problem_of_compiler() else "measured"
    if not _C.shares_host_memory(device):
        why += " and the host does not share its memory"
    elif problem := _problem_of_compiler():
        why += f" and Inductor finds no C++ compiler ({problem})"
    else:
        return "host"
    warnings.warn(
        f"torch.compile runs graphs of {state.name}:{device} operator by operator, because {why}; "
        "results are the same, and nothing is fused",
        stacklevel=2,
    )
    return "eager"


@cache
def _problem_of_compiler() -> str:
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception as problem:
        return str(problem) or type(problem).__name__
    return ""
