"""Work that does not end: who waits for it is told, or stops waiting."""

from __future__ import annotations

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
torture.configure(delay_us=1_500_000)
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

WAITS = ["event", "stream", "device", "copy", "operator"]


# Waits for what is enqueued, and for memory, are one each.
SOME_WAITS = [
    pytest.param(wait, marks=() if wait in ("event", "copy") else pytest.mark.slow)
    for wait in WAITS
]


@pytest.mark.parametrize("wait", SOME_WAITS)
def test_a_long_wait_is_reported(wait: str) -> None:
    done = try_python(STUCK, wait, OUTBOARD_TORTURE="count", OUTBOARD_WAIT_WARNING="0.2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
    assert "device 'host' has been in `" in done.stderr
    assert done.stderr.count("seconds: work that its driver was given has not ended") >= 1


@pytest.mark.parametrize("wait", SOME_WAITS)
def test_a_limited_wait_is_given_up(wait: str) -> None:
    printed = run_python(STUCK, wait, OUTBOARD_TORTURE="count", OUTBOARD_WAIT_TIMEOUT="0.2")
    assert "was given up after 0.2 seconds (OUTBOARD_WAIT_TIMEOUT)" in printed


def test_short_waits_are_neither() -> None:
    for settings in ({"OUTBOARD_WAIT_WARNING": "20"}, {"OUTBOARD_WAIT_TIMEOUT": "20"}):
        done = try_python(STUCK, "device", OUTBOARD_TORTURE="count", **settings)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


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
