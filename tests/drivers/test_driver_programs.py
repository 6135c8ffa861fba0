"""Programs and launches that our drivers refuse, on every driver whose devices run code."""

import ctypes

import pytest
from driver_support import DriverUnderTest, fails_with

from torch_outboard.check.sources import ANSWER, kernel_of, source_for
from torch_outboard.drivers.client import Local
from torch_outboard.drivers.contract import Status


@pytest.fixture(autouse=True)
def largest(driver: DriverUnderTest) -> int:
    """The most work items in a group."""
    driver.need("program_build", "program_release", "kernel_create", "kernel_release", "launch")
    count: int = driver.device_properties(0).max_work_group_size
    if count == 0:
        driver.skipped = True
        pytest.skip("the device runs no code here")
    return count


def test_wrong_launches(driver: DriverUnderTest, queue: int, largest: int) -> None:
    memory, add = driver.make_memory(4096), kernel_of(driver, "add")
    factor, bias = ctypes.c_int32(1), ctypes.c_int64(1)
    good = memory, memory, factor, memory, bias
    driver.launch(queue, add, [64], [1], *good)
    wrong: list[tuple[list[int], list[int], tuple[object, ...]]] = [
        ([0], [1], good),
        ([64], [0], good),
        ([], [], good),
        ([2 * largest], [2 * largest], good),
        ([64], [1], (*good, factor)),
        ([64], [1], (memory, memory, bias, memory, bias)),
    ]
    if largest > 1:
        wrong.append(([100], [64], good))
    if driver.name != "ocl":  # OpenCL tells no kind of a parameter
        wrong += [
            ([64], [1], good[:-1]),
            ([64], [1], (memory, memory, memory, memory, bias)),
            ([64], [1], (memory, factor, factor, memory, bias)),
            ([64], [1], (0, memory, factor, memory, bias)),
            ([64], [1], (Local(1 << 30), memory, factor, memory, bias)),
        ]
    if driver.name == "riscv":
        wrong.append(([64], [1], (driver.make_memory(64, 1), memory, factor, memory, bias)))
    for global_size, local_size, arguments in wrong:
        with fails_with(Status.INVALID_ARGUMENT):
            driver.launch(queue, add, global_size, local_size, *arguments)
    with fails_with(Status.INVALID_ARGUMENT, "device 1"):
        driver.launch(queue, kernel_of(driver, "increment", 1), [64], [1], memory)
    driver.launch(queue, add, [64], [1], *good)
    driver.queue_synchronize(queue)


def test_unknown_options_and_kernels(driver: DriverUnderTest) -> None:
    with fails_with(Status.BUILD_FAILED):
        driver.program_build(0, source_for(driver, ANSWER), "-DANSWER=1 --no-such-option")
    with fails_with(Status.INVALID_ARGUMENT, "no kernel named nonesuch"):
        kernel_of(driver, "nonesuch")
