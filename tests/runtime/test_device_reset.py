"""A lost device says what to do, and works again after a reset.

Fault injection loses devices. Each test has a separate process: others could not use the device.
"""

import textwrap

import pytest

from tests.support import run_python

PRELUDE = """
import gc, os, torch, torch_outboard
from torch_outboard import _C
from torch_outboard.drivers import faults

name = torch_outboard.device_name()
module = torch.get_device_module(name)

def message_of(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "nothing was raised"

"""


def run(code: str, **environment: str | None) -> list[str]:
    settings = {"OUTBOARD_FAULTS": "count", "OUTBOARD_DRIVER": "host", **environment}
    return run_python(PRELUDE + textwrap.dedent(code), **settings).splitlines()


LOST = (
    "AcceleratorError: driver 'host' returned device lost from `{}`: "
    "Fault injection has lost device 0.; "
    "the device is lost until torch.host.reset_device() is called, once its tensors are gone"
)


@pytest.mark.parametrize("access", ["shared", "separate"])
def test_lost_device_refuses_work_and_comes_back(access: str) -> None:
    lines = run(
        """
        x = torch.ones(1000, device=name)
        module.synchronize()
        faults.lose(0)
        print(message_of(lambda: torch.empty(1 << 20).pin_memory().to(name, non_blocking=True)))
        print(message_of(lambda: x.fill_(3)))
        print(message_of(module.synchronize))
        print(message_of(lambda: torch.empty(1 << 28, device=name)))
        # Errors that could not be raised where they happened are raised once, by the next wait.
        message_of(lambda: module.synchronize(1))
        print(torch.ones(3, device=f"{name}:1").add(1).tolist())
        print(message_of(module.reset_device))
        del x
        module.reset_device()
        y = torch.arange(5.0).to(name)
        y.fill_(2)
        print((y + 1).tolist(), faults.misuses())
        """,
        OUTBOARD_HOST_ACCESS=access,
    )
    assert lines[0] == LOST.format("copy_host_to_device")
    assert lines[1] == LOST.format("queue_synchronize" if access == "shared" else "fill")
    assert lines[2] == LOST.format("queue_synchronize")
    assert lines[3] == LOST.format("allocate")
    assert lines[4] == "[2.0, 2.0, 2.0]"
    assert lines[5].startswith("RuntimeError: host:0 cannot be reset while tensors hold ")
    assert lines[5].endswith("of its memory; delete them and call again")
    assert lines[6] == "[3.0, 3.0, 3.0, 3.0, 3.0] 0"


def test_everything_goes_back_before_a_reset() -> None:
    """Streams that were busy, blocks that other streams used, memory sent to other processes."""
    lines = run(
        """
        from multiprocessing.reduction import ForkingPickler

        stream = torch.Stream(name)
        x, y = torch.ones(1 << 20, device=name), torch.ones(1 << 18, device=name)
        event = torch.Event(name)
        ForkingPickler.dumps(y)
        with stream:
            x.mul_(2)
            event.record()
        x.record_stream(stream)
        y.record_stream(stream)
        faults.lose(0, 2)
        message_of(lambda: [x.fill_(1) for _ in range(5)])
        del x, y
        module.reset_device()
        print(faults.live()["allocations"], faults.misuses(), module.memory_reserved())
        with stream:
            x = torch.ones(4, device=name).mul_(2)
        event.record(stream)
        event.synchronize()
        module.synchronize()
        print(x.tolist(), event.query())
        # Failures of before are not raised after.
        x = torch.ones(1 << 20, device=name)
        faults.fail("deallocate")
        faults.lose(0)
        message_of(lambda: x.fill_(3))
        del x
        module.reset_device()
        module.synchronize()
        print(torch.ones(3, device=name).tolist())
        # A device that is not lost can be reset.
        calls = faults.calls()["device_reset"]
        x = torch.ones(1 << 20, device=name)
        x.add_(1)
        del x
        for device in (None, 0, "host:1"):
            module.reset_device(device)
        print(torch.ones(3, device=name).tolist(), faults.calls()["device_reset"] - calls)
        # A reset that failed can be repeated.
        faults.fail("device_reset", status="device_lost")
        print(message_of(module.reset_device))
        module.reset_device()
        print(torch.ones(3, device=name).tolist())
        """,
        OUTBOARD_HOST_ACCESS="separate",
    )
    assert lines[:2] == ["0 0 0", "[2.0, 2.0, 2.0, 2.0] True"]
    assert lines[2:4] == ["[1.0, 1.0, 1.0]", "[1.0, 1.0, 1.0] 3"]
    assert lines[4].startswith(
        "AcceleratorError: driver 'host' returned device lost from `device_re"
    )
    assert lines[5] == "[1.0, 1.0, 1.0]"


def test_captured_graphs_are_let_go_first() -> None:
    lines = run(
        """
        if not hasattr(torch.accelerator, "Graph"):
            print("no graphs"), exit()
        x = torch.ones(8, device=name)
        graph = module.Graph()
        with module.graph(graph):
            x.copy_(torch.zeros_like(x))
        graph.replay()
        faults.lose(0)
        print(message_of(lambda: x.fill_(3)))
        print(message_of(module.reset_device))
        print(message_of(graph.reset))
        del x, graph
        module.reset_device()
        print(torch.ones(3, device=name).tolist(), faults.live()["graphs"], faults.misuses())
        """,
        OUTBOARD_HOST_ACCESS="separate",
    )
    if lines == ["no graphs"]:
        pytest.skip("this version of PyTorch has no graphs of accelerators")
    assert lines[0] == LOST.format("fill")
    assert lines[1] == (
        "RuntimeError: host:0 cannot be reset while 1 captured graphs use it; delete them and "
        "call again"
    )
    assert lines[2] == LOST.format("queue_synchronize")
    assert lines[3] == "[1.0, 1.0, 1.0] 0 0"


def test_driver_that_cannot_reset() -> None:
    lines = run(
        """
        from torch_outboard.drivers import contract, host

        table = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
        table.device_reset = contract.FUNCTIONS["device_reset"]()
        torch_outboard.use_driver(table)
        torch.ones(3, device=name)
        print(message_of(module.reset_device))
        faults.lose(0)
        print(message_of(module.synchronize))
        """
    )
    assert lines[0] == (
        "NotImplementedError: driver 'host' cannot reset its devices; restart the process instead"
    )
    assert lines[1].endswith("lost device 0.; the device is lost until the process restarts")
