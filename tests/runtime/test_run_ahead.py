"""How far the host runs ahead of a queue, and how a process ends that gives work all the time."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support import run_python, try_python

pytestmark = pytest.mark.by_turns(2)

RUN_AHEAD = """
import time
import torch
from torch_outboard.drivers import torture

pinned = torch.ones(1 << 16).pin_memory()
target = torch.empty(1 << 16, device="host")
torch.host.synchronize()
torture.reset()
torture.configure(delay_us=5_000)
start = time.monotonic()
for _ in range(60):
    target.copy_(pinned, non_blocking=True)
took = time.monotonic() - start
print(took, sum(torture.calls()[name] for name in ("event_synchronize", "queue_synchronize")))
torture.configure(delay_us=0)
torch.host.synchronize()
"""


@pytest.mark.parametrize("allowed", ["8", "0", None])
def test_the_work_in_flight_has_a_bound(allowed: str | None) -> None:
    """60 pieces of work take 5 ms each."""
    took, waits = run_python(
        RUN_AHEAD,
        OUTBOARD_TORTURE="count",
        OUTBOARD_HOST_ACCESS="separate",
        OUTBOARD_WORK_IN_FLIGHT=allowed,
    ).split()
    if allowed == "8":
        assert float(took) >= 50 * 0.005
        assert 5 <= int(waits) <= 20
    else:
        assert int(waits) == 0


def test_a_wrong_bound_is_refused() -> None:
    done = try_python("import torch; torch.ones(1, device='host')", OUTBOARD_WORK_IN_FLIGHT="many")
    assert done.returncode != 0
    assert "ValueError: OUTBOARD_WORK_IN_FLIGHT='many' is no whole number" in done.stderr


BOUNDED_GRAPHS = """
import torch
x = torch.ones(1 << 12, device="host")
y = torch.zeros(1 << 12, device="host")
graph = torch.accelerator.Graph()
with graph:
    for _ in range(10):
        y.copy_(x)
for _ in range(20):
    graph.replay()
torch.host.synchronize()
assert torch.equal(y.cpu(), torch.ones(1 << 12))
"""


def test_captured_work_does_not_count() -> None:
    run_python(BOUNDED_GRAPHS, OUTBOARD_WORK_IN_FLIGHT="2", OUTBOARD_HOST_ACCESS="separate")


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
time.sleep(0.3)
print("ends")
"""


@pytest.mark.parametrize(
    ("driver", "settings"),
    [
        ("host", {}),
        ("host", {"OUTBOARD_TORTURE": "delay_us=500"}),
        ("host", {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_FALLBACK_COPIED": "allow"}),
        ("ocl", {"OUTBOARD_WAY": "device"}),
    ],
)
def test_exit_while_a_daemon_thread_trains(driver: str, settings: dict[str, str]) -> None:
    start = time.monotonic()
    done = try_python(EXIT, driver, timeout=100, **{"OUTBOARD_DRIVER": driver, **settings})
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
