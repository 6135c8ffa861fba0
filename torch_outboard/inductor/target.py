"""What kernels are written for: the kind of a device, its vectors and work-groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from torch_outboard import _C

_GROUP = 256
_LANES = 16
# Of the parameters of a kernel: what OpenCL guarantees, and more than some devices have.
_PARAMETER_BYTES = 1024


@dataclass(frozen=True)
class Target:
    """Attributes:
    lanes: values of a vector in kernels; 1 on a GPU.
    group: work items of a group; 1 on a processor, which runs them one after the other.
    processors: how many work at once.
    float64: whether kernels may compute in double precision.
    pointer_bytes: of a parameter that is a pointer: with handles, an offset goes with it.
    parameter_bytes: of all parameters of a kernel.
    """

    lanes: int
    group: int
    processors: int
    float64: bool
    pointer_bytes: int
    parameter_bytes: int


@cache
def target_of(device: torch.device) -> Target:
    """Of a device of the kit."""
    properties = _C.device_properties(device.index or 0)
    double = bool(properties.dtypes & (1 << 9))  # OB_DTYPE_FLOAT64
    processors = max(1, properties.multi_processor_count)
    pointer = 16 if properties.addressing == "handle" else 8
    if properties.kind != "cpu":
        group = min(_GROUP, properties.max_work_group_size)
        return Target(1, group, processors, double, pointer, _PARAMETER_BYTES)
    # Two registers of most processors: neighbouring instructions do not wait for each other.
    return Target(_LANES, 1, processors, double, pointer, _PARAMETER_BYTES)
