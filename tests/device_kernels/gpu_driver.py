"""The `ocl` driver with devices that say they are GPUs, for tests on machines without one.

Kernels have forms for GPUs, in which the work items of a group share work. OpenCL on a CPU runs
them as well, slower than the forms for processors, and finds what is wrong with them but for what
hardware alone shows: missing barriers between items of one SIMD unit, and limits of memory.

    python -m pytest --configuration gpu tests/device_kernels
"""

import os
from typing import Any

from tests.device_kernels import changed_driver
from torch_outboard.drivers.contract import DeviceKind, Feature

# Work items of a group: enough for several of every tree of sums, few enough to compile soon. Of
# test_group_sizes.py another number.
LANES = int(os.environ.get("TEST_LANES", "64"))
NONE = Feature(0)

sources: list[str] = []  # of the programs that were compiled, without what goes before each


def use(lanes: int = LANES, *, matrix_units: Feature = NONE) -> None:
    """Makes it the driver of this process; to be called before the first use of the device.

    Args:
        lanes: the largest work-group that the devices say they have.
        matrix_units: those that they say they have, which kernels then emulate.
    """
    original = changed_driver.original()

    def change(found: Any) -> None:
        found.kind = DeviceKind.GPU
        found.max_work_group_size = min(found.max_work_group_size, lanes)
        found.features |= matrix_units

    def program_build(context: int, source: Any, program: Any) -> int:
        sources.append(source.contents.source.decode().partition("#line 1\n")[2])
        status: int = original.program_build(context, source, program)
        return status

    changed_driver.use(
        device_properties=changed_driver.with_properties(change), program_build=program_build
    )
