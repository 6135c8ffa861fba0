"""Work that never ends: Ctrl-C ends a wait for it, and the process ends without the device."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.support import SLOWNESS, kernels_run_on

# `start()` gives the device work that does not end.
KERNEL = """
import sys
import torch
import torch_outboard

torch.library.define("endless::run", "(Tensor x) -> Tensor")
@torch_outboard.kernel(
    "endless::run",
    source=\"\"\"
        __kernel void run(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          volatile int go = 1;
          while (go) {}
          out_store(i, x_load(i));
        }
    \"\"\",
)
def run(plan, x):
    plan.launch("run", plan.result().numel())

device = "ocl"
start = lambda: torch.ops.endless.run(torch.ones(4, device="ocl"))
"""
# The driver `host` runs what it is given an hour later.
LATE = """
import sys
import torch
import torch_outboard
from torch_outboard.drivers import faults

device = "host"
pinned = torch.full((1 << 18,), 5.0).pin_memory()
target = torch.ones(1 << 18, device="host")
def start(microseconds=3_600_000_000):
    torch.host.synchronize()
    faults.configure(delay_us=microseconds)
    return target.copy_(pinned, non_blocking=True)
"""
# Background processes of a shell ignore Ctrl-C, and so would their children.
WAIT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
def told(wait):
    print("waiting", flush=True)
    try:
        wait()
        print("done", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except RuntimeError as error:
        print(error, flush=True)
"""
SETTINGS = {
    "ocl": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device"},
    "host": {"OUTBOARD_DRIVER": "host", "OUTBOARD_CLANG": "none", "OUTBOARD_FAULTS": "count"},
}
CODE = {"ocl": KERNEL, "host": LATE}
SECONDS = 20 * SLOWNESS

# Reaction of a program to Ctrl-C, after these seconds; status and output.
PROGRAMS = {
    "a wait for a kernel ends": (
        "ocl", 0.5, (3, "interrupted\n"),
        """
told(start().cpu)
sys.exit(3)
""",
    ),
    "a wait for an event ends": (
        "host", 0.5, (3, "interrupted\n"),
        """
start()
event = torch.Event(device)
event.record()
told(event.synchronize)
sys.exit(3)
""",
    ),
    "the wait at exit ends": (
        "host", 1, (3, ""),
        """
start()
print("waiting", flush=True)
sys.exit(3)
""",
    ),
    # That wait is one that cannot throw: Python raises behind it.
    "a wait for room in the queue ends": (
        "ocl", 3, (3, "interrupted\n"),
        """
work = start()
def add():
    global work
    while True:
        work = work + work
told(add)
sys.exit(3)
""",
    ),
    "the device goes on": (
        "host", 0.5, (0, "interrupted\n5.0\n"),
        """
work = start(2_000_000)
told(work.cpu)
faults.configure(delay_us=0)
print(work.sum().item() / work.numel())
""",
    ),
    "a handler that does not raise ends no wait": (
        "host", 0.3, (0, "handled\ndone\n"),
        """
signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
told(start(1_500_000).cpu)
""",
    ),
}  # fmt: skip
SLOW = ("a wait for room in the queue ends",)


def started(driver: str, code: str, **settings: str) -> subprocess.Popen[str]:
    """A process that waits for work that does not end."""
    if driver == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("the first OpenCL device runs no kernels")
    process = subprocess.Popen(
        [sys.executable, "-c", CODE[driver] + WAIT + code],
        env=os.environ | SETTINGS[driver] | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def end(process: subprocess.Popen[str], repeats: bool = False) -> tuple[int, str]:
    """The exit status and what was printed.

    Args:
        repeats: whether Ctrl-C is repeated, since one before the wait at exit does not end that.
    """
    limit = time.monotonic() + SECONDS
    try:
        while True:
            try:
                printed, _ = process.communicate(timeout=2 if repeats else SECONDS)
                return process.returncode, printed
            except subprocess.TimeoutExpired:
                if not repeats or time.monotonic() > limit:
                    raise
                process.send_signal(signal.SIGINT)
    finally:
        process.kill()


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in PROGRAMS]
)
def test_programs_and_ctrl_c(name: str) -> None:
    driver, seconds, expected, code = PROGRAMS[name]
    process = started(driver, code)
    assert not select.select([process.stdout], [], [], seconds)[0]
    process.send_signal(signal.SIGINT)
    assert end(process, repeats=name == "the wait at exit ends") == expected


@pytest.mark.by_turns(3)
def test_after_a_timeout_the_process_ends_with_its_status() -> None:
    code = "told(start().cpu)\nsys.exit(3)"
    status, printed = end(started("host", code, OUTBOARD_WAIT_TIMEOUT="0.5"))
    assert status == 3
    assert "was given up after 0.5 seconds" in printed
