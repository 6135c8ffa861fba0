"""Properties of a device for compilation: vector width, work-groups, placement of its graphs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_outboard import _C
from torch_outboard.state import state

_GROUP = 256
# Vector widths in the order of trial. The first fills two registers of most processors, so that
# neighbouring instructions do not depend on each other. PoCL refuses vectors wider than a register
# if its compiler mistakes the processor for another one.
_LANES = (16, 8, 4)
_VECTORS = """
__kernel void vectors(OB_POINTER(float, x), OB_POINTER(long, y)) {
    OB_BIND(float, x)
    OB_BIND(long, y)
    const long16 whole = vload16(0, y);
    vstore16(fabs(vload16(0, x)) + convert_float16(whole), 0, x);
    vstore16(max(whole, (long16)(1)), 0, y);
}
"""
_KINDS = (torch.float32, torch.int64)
# Limit for the parameters of a kernel: the least that OpenCL requires; some devices have less.
_PARAMETER_BYTES = 1024


@dataclass(frozen=True)
class Target:
    """Attributes:
    lanes: lanes of vectors in kernels; 1 on a GPU.
    group: largest work-group of kernels; 1 on a processor, which runs work-items in sequence.
    processors: number of compute units.
    float64: whether kernels may compute in double precision.
    pointer_bytes: size of a pointer parameter; a handle includes an offset.
    parameter_bytes: limit for all parameters of a kernel.
    """

    lanes: int
    group: int
    processors: int
    float64: bool
    pointer_bytes: int
    parameter_bytes: int


@cache
def target_of(device: torch.device) -> Target:
    """The target of a device of the kit."""
    properties = _C.device_properties(device.index or 0)
    double = torch.float64 in properties.dtypes
    processors = max(1, properties.multi_processor_count)
    pointer = 16 if properties.addressing == "handle" else 8
    if properties.kind != "cpu":
        group = min(_GROUP, properties.max_work_group_size)
        return Target(1, group, processors, double, pointer, _PARAMETER_BYTES)
    index = device.index or 0
    lanes = next((n for n in _LANES if not _C.runs_code(index) or _runs(device, n)), _LANES[-1])
    return Target(lanes, 1, processors, double, pointer, _PARAMETER_BYTES)


def _runs(device: torch.device, lanes: int) -> bool:
    """Whether a device's compiler supports vectors of `lanes` values of any type."""
    program = _C.GraphProgram(_VECTORS.replace("16", str(lanes)))
    kernel = _C.GraphKernel(program, "vectors", "tt", cut="chunks", local=1, grain=1, limit=1)
    try:
        kernel.build(device.index or 0)
    except RuntimeError:
        return False
    # The disk cache has programs that ran. Graph passes may call this under FakeTensorMode, whose
    # tensors have no memory.
    with _disable_current_modes():
        kernel(*(torch.empty(lanes, dtype=kind, device=device) for kind in _KINDS), 1, 1)
    return True


def placement_of_graphs(device: int) -> str:
    """Placement of the compiled graphs of a device.

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
