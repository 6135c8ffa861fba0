"""Programs and kernels: building, binaries, names, lifetime."""

from __future__ import annotations

import ctypes

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import Failed
from torch_outboard.check.session import Session, expect, expect_equal
from torch_outboard.check.sources import ANSWER, KERNELS, read_ints, source_for
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

BINARY = (
    "Otherwise *bytes is the capacity of `data`, at least that size; the driver fills `data` and "
    "stores in *bytes how many bytes it wrote."
)


@check(
    "program_build",
    says='of OpenCL\'s compilers, such as "-D N=4"; never NULL',
    advice="Pass `options` on to the compiler, and make them part of every key of a cache.",
    seconds=90,
)
def options(driver: Session) -> None:
    """Options of a build count, and a kernel outlives its program."""
    driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(4)
    source = source_for(driver, ANSWER)
    for answer in (41, 42):
        program = driver.program_build(0, source, f"-DANSWER={answer}")
        kernel = driver.kernel_create(program, "f")
        driver.program_release(program)
        driver.fill(queue, memory, bytes(4), 4)
        driver.launch(queue, kernel, [1], [1], memory)
        expect_equal(read_ints(driver, queue, memory, 1), [answer], "the number of the option")
        driver.kernel_release(kernel)


@check(
    "program_binary",
    "program_load",
    says=BINARY,
    advice="Store everything in the binary that a launch needs, also names and sizes.",
    seconds=90,
)
def binaries(driver: Session) -> None:
    """A program that is loaded from its binary does the same."""
    driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(4)
    program = driver.program_build(0, source_for(driver, ANSWER), "-DANSWER=43")
    size = ctypes.c_uint64()
    driver.call("program_binary", program, None, ctypes.byref(size))
    expect(size.value > 0, "a size above 0", size.value)
    # With room behind it, which stays as it was.
    data = ctypes.create_string_buffer(b"\xee" * (size.value + 64), size.value + 64)
    written = ctypes.c_uint64(size.value + 64)
    driver.call("program_binary", program, data, ctypes.byref(written))
    expect(0 < written.value <= size.value, f"up to {size.value} bytes written", written.value)
    expect_equal(data.raw[size.value :], b"\xee" * 64, "the bytes behind the binary")
    driver.program_release(program)
    loaded = driver.program_load(0, data.raw[: written.value])
    kernel = driver.kernel_create(loaded, "f")
    driver.program_release(loaded)
    driver.fill(queue, memory, bytes(4), 4)
    driver.launch(queue, kernel, [1], [1], memory)
    expect_equal(read_ints(driver, queue, memory, 1), [43], "the number of the option")
    driver.kernel_release(kernel)


@check(
    "program_load",
    says="OB_INVALID_ARGUMENT for bytes of another driver or version that the driver can tell "
    "from its own; the kit then compiles the source.",
    advice="Begin binaries with a name, a version and a checksum.",
)
def foreign_binaries(driver: Session) -> None:
    """Bytes that are no binary are refused, and the process goes on."""
    driver.need_kernels()
    for data in (b"", b"\0" * 4096, b"outboard" * 100):
        try:
            program = driver.program_load(0, data)
        except DriverError as error:
            expect(error.message, "a message", "an empty one", function="last_error")
            continue
        driver.program_release(program)
        raise Failed("INVALID_ARGUMENT for bytes that are not a binary", "OK")


@check(
    "program_build",
    says="Compiles a source. On OB_BUILD_FAILED last_error is the compiler's log.",
    advice="Return the compiler's output whole: authors of kernels read it.",
    seconds=90,
)
def what_cannot_be_built(driver: Session) -> None:
    """A source that does not compile answers BUILD_FAILED with the compiler's log."""
    driver.need_kernels()
    for source, word in (
        ("__kernel void broken() { no_such_variable = 1; }", "no_such_variable"),
        (source_for(driver, ANSWER), ""),  # without the option that it needs
    ):
        try:
            driver.program_release(driver.program_build(0, source))
        except DriverError as error:
            expect_equal(error.status, Status.BUILD_FAILED, "the status")
            named = word in error.message and bool(error.message)
            expect(named, f"a log with {word or 'words'}", repr(error.message[:200]))
            continue
        raise Failed("BUILD_FAILED", "OK")


@check(
    "kernel_create",
    says="The program has a kernel of that name (checked).",
    advice="Look the name up in the program, not in all that was loaded.",
    seconds=90,
)
def names(driver: Session) -> None:
    """A name that the program lacks is refused."""
    driver.need_kernels()
    program = driver.program_build(0, source_for(driver, KERNELS))
    with driver.failing(Status.INVALID_ARGUMENT, "kernel_create", "a kernel that is not there"):
        driver.kernel_create(program, "nonesuch")
    driver.kernel_release(driver.kernel_create(program, "increment"))
    driver.program_release(program)


@check(
    "kernel_create",
    says="A kernel of a program; used by one thread at a time, kept alive by itself.",
    advice="Load each program under a name of its own: dlopen returns the first library again "
    "for a second one of the same name.",
    seconds=120,
)
def two_programs(driver: Session) -> None:
    """Two programs with a kernel of the same name live at once, and stay apart."""
    driver.need_kernels()
    queue, memory = driver.make_queue(), driver.make_memory(64)
    source = source_for(driver, ANSWER)
    programs = [driver.program_build(0, source, f"-DANSWER={i}") for i in (7, 8)]
    kernels = [driver.kernel_create(program, "f") for program in programs]
    for round_ in range(2):
        for i, kernel in enumerate(kernels):
            driver.launch(queue, kernel, [1], [1], memory)
            found = read_ints(driver, queue, memory, 1)
            expect_equal(found, [7 + i], f"what the kernel of program {i} wrote")
        if round_ == 0:  # another one in the place of the first
            driver.kernel_release(kernels[0])
            driver.program_release(programs[0])
            programs[0] = driver.program_build(0, source, "-DANSWER=7")
            kernels[0] = driver.kernel_create(programs[0], "f")
    for kernel, program in zip(kernels, programs, strict=True):
        driver.program_release(program)
        driver.kernel_release(kernel)
