"""Processes that compile for PoCL beside this one."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from driver_support import needs_pocl
from program_support import ocl_process

pytestmark = [pytest.mark.by_turns(3), *needs_pocl()]

# Names for the code of a test.
PRELUDE = """
import ctypes, json, os, signal, struct, sys, time
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError, Local

def other_processes():
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, _, rest = open(f"/proc/{process}/stat").read().rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if name.endswith("(pocl_compiler") and int(parent) == os.getpid() and state != "Z":
            found.append(int(process))
    return found

def other_process():
    return next(iter(other_processes()), None)

def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.05)

def processor_seconds(process):
    fields = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

def is_idle(process):
    if "libpocl" not in open(f"/proc/{process}/maps").read():
        return False
    before = processor_seconds(process)
    time.sleep(0.3)
    return processor_seconds(process) == before

def build(number):
    # Many functions, so that a build takes longer than one from the cache.
    offset = "ulong offset, " if os.environ.get("OUTBOARD_OCL_MEMORY") == "handles" else ""
    source = "".join(
        f"__kernel void f{i}(__global float *x, {offset}int n, __local float *shared) {{"
        f"  shared[get_local_id(0)] = exp2({number}.0f) + {i} * pow(x[4], sin(x[5]));"
        f"  if (n == 4) x[get_global_id(0)] = shared[get_local_id(0)]; }}"
        for i in range(40)
    )
    return driver.program_build(0, source)

def launch(queue, program, i, address):
    kernel = driver.kernel_create(program, f"f{i}")
    driver.launch(queue, kernel, [4], [4], address, ctypes.c_int32(4), Local(16))

def new_memory(queue):
    address = driver.allocate(0, 256)
    driver.write(queue, address, bytes(256))
    return address

def run(number):
    queue = driver.queue_create(0)
    address = new_memory(queue)
    launch(queue, build(number), 0, address)
    assert struct.unpack("4f", driver.read(queue, address, 16)) == (2.0 ** number,) * 4

def launch_kernels(number, count):
    # One launch of each of `count` kernels. Returns a function that checks their results.
    queue, program = driver.queue_create(0), build(number)
    addresses = [new_memory(queue) for _ in range(count)]
    for i, address in enumerate(addresses):
        launch(queue, program, i, address)
    def check():
        for i, address in enumerate(addresses):
            values = struct.unpack("4f", driver.read(queue, address, 16))
            assert values == (2.0 ** number + i,) * 4, (i, values)  # pow(0, sin(0)) is 1
    return check

driver = Client(contract.load(ocl.library_path()))
driver.initialize()
run(1)
helper = other_process()
"""
IDLE = "wait_for(lambda: is_idle(helper))\n"
needs_two = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="no other process is started for one processor"
)


def run(folder: Path, code: str, **settings: str) -> dict[str, object]:
    """The output of a process with an empty cache of PoCL."""
    done = ocl_process(PRELUDE + code, POCL_CACHE_DIR=str(folder / "kcache"), **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else {}


def is_gone(process: int) -> bool:
    """Whether there is no such process, or soon none."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    return False


@needs_two
def test_it_builds_what_this_process_then_finds(tmp_path: Path) -> None:
    """It tells of an error in a source as ever, and ends with this process."""
    code = """
before = processor_seconds(helper)
run(2)
seconds = processor_seconds(helper) - before
try:
    driver.program_build(0, "__kernel void f(__global float *x) { x[0] = unknown_name; }")
except DriverError as error:
    assert "unknown_name" in str(error), error
else:
    raise AssertionError("it compiles")
run(3)
assert other_process() == helper
print(json.dumps({"process": helper, "seconds": seconds}), flush=True)
driver.call("finalize")
"""
    found = run(tmp_path, IDLE + code)
    assert isinstance(found["process"], int)
    assert found["seconds"] > 0
    assert is_gone(found["process"])


@needs_two
def test_it_ends_with_a_process_that_says_nothing(tmp_path: Path) -> None:
    code = "print(helper, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = ocl_process(PRELUDE + code, POCL_CACHE_DIR=str(tmp_path / "kcache"))
    assert is_gone(int(done.stdout))


@needs_two
def test_launches_are_compiled_by_more_processes_which_may_fail(tmp_path: Path) -> None:
    """They start when none is free; what fails is done here, and is not started again."""
    code = """
before = time.process_time()
check = launch_kernels(2, 10)
wait_for(lambda: len(other_processes()) >= 2)
check()
own = time.process_time() - before
others = sum(map(processor_seconds, other_processes()))
assert own < others / 2, (own, others)
check = launch_kernels(3, 6)
for process in other_processes():
    os.kill(process, signal.SIGKILL)
check()
run(4)
run(5)
assert other_process() is None, "it was started again"
"""
    run(tmp_path, IDLE + code)


@needs_two
@pytest.mark.slow
def test_it_ends_when_nothing_is_asked_and_comes_back(tmp_path: Path) -> None:
    code = """
wait_for(lambda: not os.path.exists(f"/proc/{helper}"))
run(2)
assert other_process() not in (helper, None)
"""
    run(tmp_path, IDLE + code)


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("", {"OUTBOARD_OCL_COMPILER_PROCESSES": "0"}),
        ("", {"POCL_KERNEL_CACHE": "0"}),  # nothing would be found
        ("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n", {}),
    ],
    ids=["setting", "no cache", "one processor"],
)
def test_there_is_none(tmp_path: Path, code: str, settings: dict[str, str]) -> None:
    program = PRELUDE.replace("driver = Client", code + "driver = Client")
    checks = "assert helper is None\nrun(2)\n"
    done = ocl_process(program + checks, POCL_CACHE_DIR=str(tmp_path / "kcache"), **settings)
    assert done.returncode == 0, done.stderr
