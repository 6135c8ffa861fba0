"""The current device of every thread, and failures that wait for a synchronization."""

import pytest
import torch

from tests.support import in_threads, run_python
from torch_outboard import _C


@pytest.mark.separate
@pytest.mark.faults
def test_every_thread_has_its_device(device, device_module):
    def work(number: int) -> None:
        index = number % 2
        device_module.set_device(index)
        for _ in range(200):
            x = torch.ones(4, device=device.type)
            y = x + 1
            found = x.device.index, y.device.index, device_module.current_device()
            assert found == (index,) * 3
        with device_module.device(1 - index):
            assert torch.ones(1, device=device.type).device.index == 1 - index
        assert device_module.current_device() == index

    in_threads(work, 8)
    assert device_module.current_device() == 0


@pytest.mark.separate
@pytest.mark.faults
def test_work_runs_on_its_own_device(device, device_module):
    """Operators on that of their arguments, and backward on that of each function."""
    seen: list[int] = []
    x = torch.ones(3, device=torch.device(device.type, 1), requires_grad=True)
    y = x * 2
    assert y.sum().device.index == 1
    assert device_module.current_device() == 0
    assert torch.empty(1, device=device.type).device.index == 0
    y.register_hook(lambda grad: seen.append(device_module.current_device()))
    y.to(torch.device(device.type, 0)).sum().backward()
    assert seen == [1]
    assert x.grad.device.index == 1
    assert device_module.current_device() == 0


# Device indices are 8 bits wide, and PyTorch has slots for 64 devices.
@pytest.mark.parametrize("index", [2, 64, 127, -1, -128])
def test_index_of_no_device(device, device_module, index):
    uses = [
        lambda: device_module.default_stream(index),
        lambda: device_module.ExternalStream(0x1000, device=index),
        lambda: device_module.synchronize(index),
    ]
    if index < 0:
        uses.append(lambda: device_module.current_stream(index))
    else:
        where = torch.device(device.type, index)
        uses += [
            lambda: torch.empty(3, device=where),
            lambda: torch.ones(3).to(where),
            lambda: getattr(torch.ones(3), device.type)(index),
            lambda: torch.ones(3, device=device).to(where),
            lambda: torch.randn(3, device=where),
            lambda: torch.Generator(where),
            lambda: torch.Stream(device=where),
            lambda: device_module.Stream(stream_id=0, device_index=index, device_type=20).query(),
            lambda: _C.stream_priority(index, 0),
            lambda: device_module.Event(device=index),
            lambda: device_module.set_device(index),
            lambda: device_module.device(index).__enter__(),
            lambda: device_module.manual_seed_all(0) or device_module.get_rng_state(where),
            lambda: device_module.get_device_properties(index),
            lambda: device_module.mem_get_info(index),
            lambda: device_module.memory_allocated(index),
            lambda: torch.accelerator.set_device_index(index),
            lambda: torch.accelerator.synchronize(index),
        ]
    for use in uses:
        with pytest.raises(RuntimeError, match=f"device index {index} was asked for"):
            use()
    assert device_module.current_device() == 0
    assert torch.ones(2, device=device).sum().item() == 2


def test_what_is_no_device(device, device_module):
    for index in (128, 2**40):
        for use in (
            lambda index=index: device_module.set_device(index),
            lambda index=index: device_module.Stream(index),
            lambda index=index: device_module.memory_allocated(index),
        ):
            with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)):
                use()
    with pytest.raises(ValueError, match="'cpu' was given where"):
        device_module.synchronize("cpu")
    with pytest.raises(TypeError, match="not as float"):
        device_module.set_device(1.5)
    with pytest.raises(RuntimeError, match=r"Invalid device, must be .* device"):
        getattr(torch.ones(1), device.type)("cpu")
    device_module.set_device(-1)
    assert device_module.current_device() == 0
    for form in (None, 0, device, str(device), device.type):
        device_module.synchronize(form)


# ---- Failures that cannot be raised where they happen

DEFERRED = """
import gc
import torch
import torch_outboard
from torch_outboard.drivers import faults

name = torch_outboard.device_name()
device_module = torch.get_device_module(name)
waits = (
    device_module.synchronize,
    torch.accelerator.synchronize,
    device_module.current_stream().synchronize,
    lambda: device_module.synchronize(1),
)
for function in ("deallocate", "event_destroy"):
    for synchronize in waits:
        x = torch.ones(1 << 20, device=name)
        event = torch.Event(name)
        event.record()
        event.synchronize()
        device_module.synchronize()
        faults.fail(function, status="device_lost")
        del x, event
        gc.collect()
        device_module.empty_cache()
        try:
            synchronize()
        except RuntimeError as error:
            print(type(error).__name__, str(error).splitlines()[0])
        else:
            print("nothing was raised")
        synchronize()
        device_module.synchronize()
        assert torch.ones(3, device=name).sum().item() == 3
"""


def test_deferred_failure_is_raised_once(device):
    lines = run_python(DEFERRED, OUTBOARD_FAULTS="count").splitlines()
    assert len(lines) == 8
    for line, function in zip(lines, ["deallocate"] * 4 + ["event_destroy"] * 4, strict=True):
        assert line.startswith(f"AcceleratorError driver '{device.type}' returned device lost")
        assert f"from `{function}` some time before this synchronization" in line
