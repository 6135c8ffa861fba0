"""Work that does not end: who waits for it is told, or stops waiting."""

from __future__ import annotations

import subprocess

import pytest

from tests.support import run_python, try_python

pytestmark = pytest.mark.by_turns(2)

STUCK = """
import sys
import torch
from torch_outboard.drivers import torture

pinned = torch.ones(1 << 18).pin_memory()
target = torch.empty(1 << 18, device="host")
torch.host.synchronize()
torture.configure(delay_us=int(sys.argv[2]))
target.copy_(pinned, non_blocking=True)
event = torch.Event("host")
event.record()
waits = {
    "event": event.synchronize,
    "stream": torch.accelerator.current_stream().synchronize,
    "device": torch.host.synchronize,
    "copy": target.cpu,
    "operator": lambda: target + 1,
}
try:
    waits[sys.argv[1]]()
    print("done")
except RuntimeError as error:
    print(error)
torture.configure(delay_us=0)
"""

# Waits for what is enqueued, and for memory, are one each.
WAITS = [
    *("event", "copy"),
    *(pytest.param(wait, marks=pytest.mark.slow) for wait in ("stream", "device", "operator")),
]


def run(wait: str, seconds: float, **settings: str) -> subprocess.CompletedProcess[str]:
    done = try_python(STUCK, wait, str(int(1e6 * seconds)), OUTBOARD_TORTURE="count", **settings)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("wait", WAITS)
def test_a_long_wait_is_reported(wait: str) -> None:
    done = run(wait, 0.8, OUTBOARD_WAIT_WARNING="0.2")
    assert done.stdout.strip() == "done"
    assert "device 'host' has been in `" in done.stderr
    assert "seconds: work that its driver was given has not ended" in done.stderr


@pytest.mark.parametrize("wait", WAITS)
def test_a_limited_wait_is_given_up(wait: str) -> None:
    done = run(wait, 1.5, OUTBOARD_WAIT_TIMEOUT="0.2")
    assert "was given up after 0.2 seconds (OUTBOARD_WAIT_TIMEOUT)" in done.stdout


@pytest.mark.parametrize("setting", ["OUTBOARD_WAIT_WARNING", "OUTBOARD_WAIT_TIMEOUT"])
def test_short_waits_are_neither(setting: str) -> None:
    done = run("device", 0.2, **{setting: "20"})
    assert (done.stdout.strip(), done.stderr) == ("done", "")


LOST = """
import ctypes
import torch
import torch_outboard
from torch_outboard.drivers import contract, host

good = contract.load(host.library_path())
lying = contract.Driver()
ctypes.memmove(ctypes.byref(lying), ctypes.byref(good), ctypes.sizeof(lying))
functions = []
# A driver that loses events: none of them ever happens.
for name in ("event_query", "queue_query"):
    functions.append(contract.FUNCTIONS[name](lambda context, handle: 1))
    setattr(lying, name, functions[-1])
torch_outboard.use_driver(lying)
event = torch.Event("host")
x = torch.ones(1 << 20, device="host")
x.copy_(torch.ones(1 << 20).pin_memory(), non_blocking=True)
event.record()
try:
    event.synchronize()
except RuntimeError as error:
    print(error)
"""


def test_an_event_that_never_happens() -> None:
    printed = run_python(LOST, OUTBOARD_WAIT_TIMEOUT="0.3", timeout=60)
    assert "`event_synchronize` was given up after 0.3 seconds" in printed
