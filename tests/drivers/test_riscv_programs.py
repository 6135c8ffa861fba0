"""Programs, launches and guests that go wrong, on the driver riscv: `--configuration riscv`."""

import array
import ctypes
import random
import time
from pathlib import Path

import pytest
from driver_support import (
    RISCV_CONFIGURATIONS,
    DriverUnderTest,
    fails_with,
    is_riscv_tested,
    open_driver,
)

from torch_outboard.check.sources import read_ints
from torch_outboard.drivers import riscv
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

pytestmark = pytest.mark.skipif(not is_riscv_tested(), reason="--configuration riscv runs this")


SOURCE = """
__kernel void append(__global int* data, int digit) {
  data[get_global_id(0)] = data[get_global_id(0)] * 3 + digit;
}

__constant float table[4] = {1, 10, 100, 1000};
__kernel void look_up(__global float* out) { out[get_global_id(0)] = table[get_global_id(0) & 3]; }

__kernel void write_to(ulong address) { *(volatile __global int*)address = 1; }
__kernel void read_from(ulong address) { (void)*(volatile __global int*)address; }
__kernel void jump_to(ulong address) { __asm__ volatile("jalr %0" ::"r"(address)); }
__kernel void no_instruction(void) { __asm__ volatile(".word 0xffffffff"); }
__kernel void never_ends(__global volatile int* x) { while (x[0] == 0) {} }
"""


@pytest.fixture
def binary(driver: DriverUnderTest) -> bytes:
    """SOURCE compiled once."""
    return driver.binary_of(SOURCE)


@pytest.fixture
def impatient(tmp_path: Path) -> DriverUnderTest:
    """A driver whose launches may take one second."""
    settings = {**RISCV_CONFIGURATIONS["riscv"], "OUTBOARD_RISCV_TIME_LIMIT": "1"}
    return open_driver(tmp_path, riscv, **settings)


def launch(
    driver: DriverUnderTest, queue: int, name: str, size: list[int], *arguments: object
) -> None:
    """One item in each group: a device has one processor."""
    kernel = driver.make_kernel(SOURCE, name)
    driver.launch(queue, kernel, size, [1] * len(size), *arguments)


def assert_goes_on(driver: DriverUnderTest, queue: int) -> None:
    memory = driver.make_memory(256)
    driver.fill(queue, memory, bytes(4), 256)
    launch(driver, queue, "append", [64], memory, ctypes.c_int32(5))
    assert read_ints(driver, queue, memory, 64) == [5] * 64


def test_constants(driver: DriverUnderTest, queue: int) -> None:
    memory = driver.make_memory(32)
    launch(driver, queue, "look_up", [8], memory)
    assert list(array.array("f", driver.read(queue, memory, 32))) == [1, 10, 100, 1000] * 2


@pytest.mark.parametrize(
    ("kernel", "address", "words"),
    [
        ("write_to", 8, "wrote to address 0x8"),
        ("write_to", 1 << 55, "wrote to address 0x80000000000000"),
        ("read_from", 0, "read from address 0x0"),
        ("jump_to", 4096, "jumped to address 0x1000"),
        ("no_instruction", None, "an unknown instruction"),
    ],
)
def test_a_guest_that_goes_wrong(
    driver: DriverUnderTest,
    queue: int,
    kernel: str,
    address: int | None,
    words: str,
) -> None:
    """The error names the kernel and the address, is raised once, and the device goes on."""
    event = driver.make_event()
    arguments = () if address is None else (ctypes.c_uint64(address),)
    launch(driver, queue, kernel, [1], *arguments)
    driver.event_record(event, queue)
    driver.event_synchronize(event)
    with fails_with(Status.ERROR, words) as error:
        driver.queue_synchronize(queue)
    assert f"Kernel {kernel} " in str(error.value)
    assert "at pc 0x" in str(error.value)
    driver.queue_synchronize(queue)
    assert_goes_on(driver, queue)


def test_a_guest_that_writes_into_its_own_code(driver: DriverUnderTest, queue: int) -> None:
    launch(driver, queue, "write_to", [1], ctypes.c_uint64(8))
    with pytest.raises(DriverError, match="pc 0x") as error:
        driver.queue_synchronize(queue)
    code = int(str(error.value).split("pc ")[1].split()[0], 16)
    launch(driver, queue, "write_to", [1], ctypes.c_uint64(code & -4))
    with pytest.raises(DriverError, match=f"wrote to address {code & -4:#x}"):
        driver.queue_synchronize(queue)


def test_a_failure_of_one_queue_is_none_of_another(driver: DriverUnderTest) -> None:
    bad, good = driver.make_queue(), driver.make_queue()
    launch(driver, bad, "write_to", [1], ctypes.c_uint64(8))
    assert_goes_on(driver, good)
    with pytest.raises(DriverError, match="write_to"):
        driver.queue_synchronize(bad)


def test_a_guest_without_end(impatient: DriverUnderTest) -> None:
    queue, memory = impatient.queue_create(0), impatient.make_memory(4096)
    impatient.fill(queue, memory, bytes(4), 4096)
    launch(impatient, queue, "never_ends", [1], memory)
    began = time.monotonic()
    with pytest.raises(DriverError, match=r"never_ends ran longer than 1 s.*TIME_LIMIT"):
        impatient.queue_synchronize(queue)
    assert time.monotonic() - began < 60
    assert_goes_on(impatient, queue)


def test_functions_that_are_nowhere(driver: DriverUnderTest) -> None:
    with fails_with(Status.BUILD_FAILED, "no_such_function"):
        driver.program_build(0, "int no_such_function(int); __kernel void broken(__global int* x) "
                                "{ x[0] = no_such_function(1); }")  # fmt: skip


def test_damaged_binaries(driver: DriverUnderTest, binary: bytes) -> None:
    """They are refused, or hold another program; nothing crashes."""
    for wrong in (b"", binary[:63], binary[: len(binary) // 2], bytes(len(binary))):
        with fails_with(Status.INVALID_ARGUMENT, "binary of a program"):
            driver.program_load(0, wrong)
    generator = random.Random(0)
    for _ in range(300):
        damaged = bytearray(binary)
        for _ in range(3):
            header = generator.random() < 0.5
            index = generator.randrange(64 if header else len(binary))
            damaged[index] = generator.randrange(256)
        try:
            program = driver.program_load(0, bytes(damaged))
        except DriverError as error:
            assert error.status in (Status.INVALID_ARGUMENT, Status.OUT_OF_MEMORY)  # noqa: PT017
            continue
        try:
            driver.kernel_release(driver.kernel_create(program, "add"))
        except DriverError as error:
            assert error.status == Status.INVALID_ARGUMENT  # noqa: PT017
        driver.program_release(program)


def test_many_programs_come_and_go(driver: DriverUnderTest, queue: int, binary: bytes) -> None:
    memory = driver.make_memory(256)
    driver.fill(queue, memory, bytes(4), 256)
    for _ in range(100):
        program = driver.program_load(0, binary)
        kernel = driver.kernel_create(program, "append")
        driver.launch(queue, kernel, [64], [1], memory, ctypes.c_int32(0))
        driver.program_release(program)
        driver.kernel_release(kernel)  # while it may still run
    assert read_ints(driver, queue, memory, 64) == [0] * 64
