"""Work that never ends: Ctrl-C ends a wait for it, and the process ends without the device."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.support import SLOWNESS, kernels_run_on

pytestmark = pytest.mark.by_turns(3)

# `start()` gives the device work that does not end, of which `wait` waits for the end.
KERNEL = """
import sys
import torch
import torch_outboard
from torch_outboard import Launch

torch.library.define("endless::run", "(Tensor x) -> Tensor")
torch_outboard.kernel(
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
    launches=Launch("run", items="numel(out)"),
)
device = "ocl"
start = lambda: torch.ops.endless.run(torch.ones(4, device="ocl"))
"""
# The driver `host` runs what it is given an hour later.
LATE = """
import sys
import torch
import torch_outboard
from torch_outboard.drivers import torture

device = "host"
pinned = torch.full((1 << 18,), 5.0).pin_memory()
target = torch.ones(1 << 18, device="host")
def start(microseconds=3_600_000_000):
    torch.host.synchronize()
    torture.configure(delay_us=microseconds)
    return target.copy_(pinned, non_blocking=True)
"""
WAIT = """
work = start()
event = torch.Event(device)
event.record()
waits = {
    "copy": work.cpu,
    "device": torch.get_device_module(device).synchronize,
    "event": event.synchronize,
    "operator": lambda: (work + 1).cpu(),
    "none": lambda: None,
}
print("waiting", flush=True)
try:
    waits[sys.argv[1]]()
    print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
except RuntimeError as error:
    print(error, flush=True)
sys.exit(3)
"""
SETTINGS = {
    "ocl": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_WAY": "device"},
    "host": {"OUTBOARD_DRIVER": "host", "OUTBOARD_CLANG": "none", "OUTBOARD_TORTURE": "count"},
}
CODE = {"ocl": KERNEL, "host": LATE}
SECONDS = 20 * SLOWNESS


class Program:
    """A process that waits for work that never ends."""

    def __init__(self, driver: str, wait: str, code: str = WAIT, **settings: str) -> None:
        if driver == "ocl" and not kernels_run_on("ocl"):
            pytest.skip("the first OpenCL device runs no kernels")
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE[driver] + textwrap.dedent(code), wait],
            env=os.environ | SETTINGS[driver] | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "waiting\n"

    def interrupt_after(self, seconds: float) -> None:
        """Ctrl-C."""
        assert self.process.stdout is not None
        assert not select.select([self.process.stdout], [], [], seconds)[0]
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """The exit status and what was printed."""
        try:
            printed, _ = self.process.communicate(timeout=SECONDS)
        finally:
            self.process.kill()
        return self.process.returncode, printed


WAITS = [
    ("ocl", "copy"),
    ("host", "event"),
    *(
        pytest.param(*wait, marks=pytest.mark.slow)
        for wait in (
            ("ocl", "device"), ("ocl", "event"), ("ocl", "operator"),
            ("host", "copy"), ("host", "device"), ("host", "operator"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("driver", "wait"), WAITS)
def test_ctrl_c_ends_a_wait_and_the_process_with_its_status(driver: str, wait: str) -> None:
    program = Program(driver, wait)
    program.interrupt_after(0.5)
    assert program.end() == (3, "interrupted\n")


@pytest.mark.parametrize(("driver", "wait"), WAITS[:2])
def test_after_a_timeout_the_process_ends_with_its_status(driver: str, wait: str) -> None:
    status, printed = Program(driver, wait, OUTBOARD_WAIT_TIMEOUT="0.5").end()
    assert status == 3
    assert "was given up after 0.5 seconds" in printed


def test_ctrl_c_ends_the_wait_at_exit() -> None:
    program = Program("host", "none")
    assert program.process.stdout is not None
    assert program.process.stdout.readline() == "done\n"
    program.interrupt_after(1)
    assert program.end() == (3, "")


# What a program does with Ctrl-C, after these seconds; status and output.
PROGRAMS = {
    "it does not catch it": (
        "ocl", 0.5, (-signal.SIGINT, ""),
        """
        work = start()
        print("waiting", flush=True)
        work.cpu()
        """,
    ),
    # That wait is one that cannot throw: Python raises behind it.
    "a wait for room in the queue ends": (
        "ocl", 3, (3, "interrupted\n"),
        """
        work = start()
        print("waiting", flush=True)
        try:
            while True:
                work = work + work
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        sys.exit(3)
        """,
    ),
    "the device goes on": (
        "host", 0.5, (0, "interrupted\n5.0\n"),
        """
        work = start(2_000_000)
        print("waiting", flush=True)
        try:
            work.cpu()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        torture.configure(delay_us=0)
        print(work.sum().item() / work.numel())
        """,
    ),
    "a handler that does not raise ends no wait": (
        "host", 0.3, (0, "handled\ndone\n"),
        """
        import signal
        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        work = start(1_500_000)
        print("waiting", flush=True)
        work.cpu()
        print("done")
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if program[0] == "ocl" else ())
        for name, program in PROGRAMS.items()
    ],
)
def test_programs_and_ctrl_c(name: str) -> None:
    driver, seconds, end, code = PROGRAMS[name]
    program = Program(driver, "", code)
    program.interrupt_after(seconds)
    assert program.end() == end
