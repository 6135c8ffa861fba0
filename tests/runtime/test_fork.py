"""Forked processes: a child never hangs and never touches the parent's driver.

Every test runs in separate processes, because what counts is what happened before the fork.
"""

import textwrap
from pathlib import Path

import pytest

from tests.support import run_python

pytestmark = pytest.mark.by_turns(3)

# The beginning of programs.
CHILDREN = f"""
import os
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
import torch
import torch_outboard
from tests.forking import in_child

name = torch_outboard.device_name()
device_module = torch.get_device_module(name)
"""


def run_with_children(code: str, **env: str | None) -> str:
    return run_python(CHILDREN + textwrap.dedent(code), timeout=240, **env)


USES = """
import gc

x = torch.arange(1000.0, device=name)
pinned = torch.ones(1000).pin_memory()
generator = torch.Generator(name)
stream = torch.Stream(device=name)
event = torch.Event(name, enable_timing=True)
event.record(stream)
leaf = torch.ones(3, device=name, requires_grad=True)
loss = (leaf * leaf).sum()
device_module.synchronize()
view = x[2:5]

def use_current_stream():
    with device_module.stream(stream):
        pass

def free():
    global x, pinned, view, event, generator, loss, leaf
    del x, pinned, view, event, generator, loss, leaf
    gc.collect()
    return "freed"

MUST_RAISE = {
    "empty": lambda: torch.empty(3, device=name),
    "add": lambda: x + 1,
    "item": lambda: x[0].item(),
    "to host": lambda: torch.ones(3).to(name),
    "cpu": lambda: x.cpu(),
    "copy_": lambda: x.copy_(torch.ones(1000)),
    "non-blocking": lambda: x.copy_(pinned, non_blocking=True),
    "pin": lambda: torch.ones(3).pin_memory(),
    "resize": lambda: x.resize_(5000),
    "random": lambda: torch.randn(3, device=name),
    "random with generator": lambda: torch.rand(3, device=name, generator=generator),
    "record_stream": lambda: x.record_stream(stream),
    "new generator": lambda: torch.Generator(name),
    "new stream": lambda: torch.Stream(device=name),
    "external stream": lambda: device_module.ExternalStream(0x1000),
    "stream synchronize": lambda: stream.synchronize(),
    "stream query": lambda: stream.query(),
    "stream block": use_current_stream,
    "record": lambda: event.record(stream),
    "event synchronize": lambda: event.synchronize(),
    "event query": lambda: event.query(),
    "event wait": lambda: event.wait(stream),
    "synchronize": lambda: device_module.synchronize(),
    "accelerator": lambda: torch.accelerator.synchronize(),
    "set_device": lambda: device_module.set_device(1),
    "properties": lambda: device_module.get_device_properties(0),
    "init": lambda: device_module.init(),
    "memory": lambda: device_module.memory_allocated(),
    "snapshot": lambda: device_module.memory_snapshot(),
    "backward": lambda: loss.backward(),
    "get_rng_state": lambda: device_module.get_rng_state(),
    "device seed": lambda: device_module.manual_seed_all(3),
    "as_cpu": lambda: torch_outboard.as_cpu(x),
    "from_cpu": lambda: torch_outboard.from_cpu(torch.ones(2)),
    "use_driver": lambda: torch_outboard.use_driver(name),
}
MAY_RETURN = {
    "free": free,
    "count": lambda: device_module.device_count(),
    "available": lambda: device_module.is_available(),
    "accelerator count": lambda: torch.accelerator.device_count(),
    "initialized": lambda: device_module.is_initialized(),
    "bad fork": lambda: device_module._is_in_bad_fork(),
    "empty_cache": lambda: device_module.empty_cache(),
    "manual_seed": lambda: torch.manual_seed(3) and "seeded",
    "metadata": lambda: (tuple(x.shape), str(x.dtype), x.stride(), str(x.device)),
    "is_pinned": lambda: torch.ones(3).is_pinned(),
    "pinned before": lambda: (pinned.is_pinned(), pinned.sum().item()),
    "cpu work": lambda: (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item(),
    "cpu backward": lambda: cpu_backward(),
}

def cpu_backward():
    leaf = torch.ones(3, requires_grad=True)
    (leaf * leaf).sum().backward()
    return leaf.grad.tolist()
"""


def test_every_entry_point_returns_or_raises():
    printed = run_with_children(
        USES
        + """
for title, use in MUST_RAISE.items():
    outcome = in_child(use)
    if not (outcome.startswith("RuntimeError") and "forked child" in outcome):
        print("must raise:", title, "->", outcome)
for title, use in MAY_RETURN.items():
    outcome = in_child(use)
    allowed = outcome.startswith("returned") or (
        outcome.startswith("RuntimeError") and "forked child" in outcome)
    print(title if allowed else f"may return: {title}", "->", outcome)
assert "start workers with the 'spawn' or 'forkserver' method" in in_child(MUST_RAISE["empty"])
# The parent is unharmed.
assert torch.equal(x.cpu(), torch.arange(1000.0))
loss.backward()
assert leaf.grad.tolist() == [2, 2, 2]
x.copy_(pinned, non_blocking=True)
device_module.synchronize()
assert x.sum().item() == 1000
"""
    )
    assert "must raise" not in printed, printed
    assert "may return" not in printed, printed
    for line in (
        "free -> returned freed",
        "count -> returned 0",
        "available -> returned False",
        "accelerator count -> returned 0",
        "initialized -> returned False",
        "bad fork -> returned True",
        "pinned before -> returned (False, 1000.0)",
        "cpu work -> returned 27000000.0",
        "cpu backward -> returned [2.0, 2.0, 2.0]",
    ):
        assert line in printed.splitlines(), printed


def test_child_frees_without_the_driver_and_exits_quietly():
    printed = run_with_children(
        """
        from torch_outboard.drivers import faults

        tensors = [torch.ones(n, device=name) for n in (1, 1000, 1 << 22)]
        tensors.append(torch.ones(10).pin_memory())
        events = [device_module.current_stream().record_event() for _ in range(3)]
        device_module.synchronize()

        def free():
            before = faults.calls()
            tensors.clear()
            events.clear()
            return faults.calls() == before

        print(in_child(free))
        live = faults.live()
        tensors.clear()
        events.clear()
        device_module.empty_cache()
        assert faults.live()["allocations"] < live["allocations"]

        # An ordinary end of a child, with exit handlers and tensors alive.
        x = torch.ones(1 << 20, device=name)
        pinned = torch.ones(3).pin_memory()
        device_module.synchronize()
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert x.sum().item() == 1 << 20
        """,
        OUTBOARD_FAULTS="count",
    )
    assert printed.split("\n")[0] == "returned True"


def test_fork_before_first_use():
    printed = run_with_children(
        """
        def use():
            x = torch.ones(3, device=name, requires_grad=True)
            (x * 2).sum().backward()
            device_module.synchronize()
            return x.grad.tolist(), device_module.device_count()

        for _ in range(3):
            print(in_child(use))
        print(use())
        """
    )
    assert printed.splitlines() == ["returned ([2.0, 2.0, 2.0], 2)"] * 3 + ["([2.0, 2.0, 2.0], 2)"]


STRESS = """
import threading

stop = threading.Event()

def allocate(size):
    stream = device_module.Stream()
    while not stop.is_set():
        with device_module.stream(stream):
            kept = [torch.empty(size * k, device=name) for k in range(1, 9)]
            kept.append(torch.empty(64).pin_memory())
            event = stream.record_event()
        del kept
        device_module.empty_cache()

x = torch.ones(1000, device=name)
shared = [torch.ones(100, device=name) for _ in range(100)]
threads = [threading.Thread(target=allocate, args=(1 << (8 + 4 * i),)) for i in range(4)]
for thread in threads:
    thread.start()

def use():
    shared.clear()
    outcomes = []
    for entry in (
        lambda: torch.empty(10, device=name),
        lambda: x + 1,
        lambda: x.cpu(),
        lambda: device_module.synchronize(),
        lambda: device_module.empty_cache(),
        lambda: torch.ones(3).pin_memory(),
        lambda: device_module.memory_stats(),
        lambda: device_module.Stream(),
    ):
        try:
            entry()
        except RuntimeError:
            outcomes.append(True)
    torch.ones(3).is_pinned()
    torch.manual_seed(0)
    leaf = torch.ones(3, requires_grad=True)
    leaf.sum().backward()
    return device_module.device_count(), len(outcomes)

wrong = [outcome for outcome in (in_child(use) for _ in range(int(sys.argv[1])))
         if not outcome.startswith("returned (0, ")]
stop.set()
for thread in threads:
    thread.join()
print(len(wrong), wrong[:3])
assert x.sum().item() == 1000
"""


@pytest.mark.parametrize("children", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_fork_while_threads_hold_locks(children):
    printed = run_python(CHILDREN + STRESS, str(children), timeout=280)
    assert printed.strip() == "0 []"
