"""Waits for work that does not end, how far the host runs ahead, and exits amid work."""

import signal
import time

import pytest

from tests.runtime.memory_checks import run_program
from tests.support import run_python, try_python

pytestmark = pytest.mark.by_turns(2)

STUCK = """
import sys
import torch
from torch_outboard.drivers import faults

pinned = torch.ones(1 << 18).pin_memory()
target = torch.empty(1 << 18, device="host")
event = torch.Event("host")
waits = {
    "event": event.synchronize,
    "copy": target.cpu,
    "stream": torch.accelerator.current_stream().synchronize,
    "device": torch.host.synchronize,
    "operator": lambda: target + 1,
}

def wait(name, seconds):
    torch.host.synchronize()
    faults.configure(delay_us=int(1e6 * seconds))
    target.copy_(pinned, non_blocking=True)
    event.record()
    faults.configure(delay_us=0)
    waits[name]()
"""


def test_long_waits_are_reported_and_short_ones_are_not() -> None:
    code = """
wait("device", 0.02)
for name in waits:
    print(name, file=sys.stderr)
    wait(name, 0.6)
"""
    settings = {"OUTBOARD_WAIT_WARNING": "0.25", "OUTBOARD_WAIT_TIMEOUT": "20"}
    done = try_python(STUCK + code, OUTBOARD_FAULTS="count", **settings)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert lines[::2] == ["event", "copy", "stream", "device", "operator"]
    for line in lines[1::2]:
        assert "device 'host' has been in `" in line
        assert "seconds: enqueued work has not ended" in line


# A driver that loses events: none of them ever happens.
LOST = """
from tests.lying_drivers import replaced
pending = lambda *_: 1
replaced(list, event_query=pending, queue_query=pending)()
"""


def test_an_event_that_never_happens() -> None:
    code = """
event = torch.Event(device)
x = torch.ones(1 << 20, device=device)
x.copy_(torch.ones(1 << 20).pin_memory(), non_blocking=True)
event.record()
fails(event.synchronize, "`event_synchronize` was given up after 0.3 seconds")
"""
    run_program(code, before=LOST, OUTBOARD_DRIVER="host", OUTBOARD_WAIT_TIMEOUT="0.3")


# Work that is captured does not count, nor does a replay for more than one.
RUN_AHEAD = """
import time
import torch
from torch_outboard.drivers import faults

pinned = torch.ones(1 << 16).pin_memory()
target = torch.zeros(1 << 16, device="host")
source = torch.ones(1 << 16, device="host")
if hasattr(torch.accelerator, "Graph"):
    graph = torch.accelerator.Graph()
    with graph:
        for _ in range(10):
            target.copy_(source)
    for _ in range(20):
        graph.replay()
    assert torch.equal(target.cpu(), pinned)
torch.host.synchronize()
faults.reset()
faults.configure(delay_us=5_000)
start = time.monotonic()
for _ in range(60):
    target.copy_(pinned, non_blocking=True)
took = time.monotonic() - start
print(took, sum(faults.calls()[name] for name in ("event_synchronize", "queue_synchronize")))
faults.configure(delay_us=0)
torch.host.synchronize()
"""


@pytest.mark.parametrize("allowed", ["8", "0", None])
def test_the_work_in_flight_has_a_bound(allowed: str | None) -> None:
    """60 pieces of work take 5 ms each."""
    took, waits = run_python(
        RUN_AHEAD,
        OUTBOARD_FAULTS="count",
        OUTBOARD_HOST_ACCESS="separate",
        OUTBOARD_WORK_IN_FLIGHT=allowed,
    ).split()
    if allowed == "8":
        assert float(took) >= 50 * 0.005
        assert 5 <= int(waits) <= 20
    else:
        assert int(waits) == 0


# A thread that does not end by itself, in a process that does.
EXIT = """
import sys
import threading
import time
import torch

device = torch.device(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 32).to(device), torch.randn(64, 1).to(device)
started = threading.Event()

def train():
    try:
        while True:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            started.set()
    except RuntimeError as error:
        assert "the process is exiting" in str(error), error
        print("refused", flush=True)

threading.Thread(target=train, daemon=True).start()
started.wait()
time.sleep(0.1)
print("ends")
"""


TRAINING = {
    "host": {
        "OUTBOARD_FAULTS": "delay_us=100",
        "OUTBOARD_HOST_ACCESS": "separate",
        "OUTBOARD_FALLBACK_COPIED": "allow",
    },
    "ocl": {"OUTBOARD_PLACEMENT": "device"},
}


@pytest.mark.parametrize("driver", TRAINING)
def test_exit_while_a_daemon_thread_trains(driver: str) -> None:
    start = time.monotonic()
    done = try_python(EXIT, driver, timeout=100, OUTBOARD_DRIVER=driver, **TRAINING[driver])
    assert done.stdout.split()[0] in ("ends", "refused")
    assert time.monotonic() - start < 60
    # Python stops a daemon thread where it wants the interpreter's lock, and PyTorch cannot be left
    # that way: a process that trains on the CPU ends like this, too. The thread may be on its way
    # out of PyTorch with the error that the process is exiting.
    stopped_by_python = "terminate called without an active exception" in done.stderr or (
        "terminate called after throwing" in done.stderr
        and "cannot be used any more: the process is exiting" in done.stderr
    )
    assert done.returncode == 0 or (stopped_by_python and done.returncode == -signal.SIGABRT), done
