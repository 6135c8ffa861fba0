"""`torch.accelerator`: every function answers for the device."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.torture]

accelerator = torch.accelerator


def test_is_the_accelerator(device):
    assert accelerator.current_accelerator() == torch.device(device.type)
    assert accelerator.current_accelerator(check_available=True) is not None
    assert accelerator.is_available()
    assert torch.get_device_module() is torch.get_device_module(device)
    assert accelerator.device_count() == torch.get_device_module(device).device_count()


def test_device_index():
    assert accelerator.current_device_index() == 0
    with accelerator.device_index(None):
        assert accelerator.current_device_index() == 0


@pytest.mark.skipif("accelerator.device_count() < 2", reason="there is one device")
def test_another_device_index():
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == 1
    accelerator.set_device_index(0)
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
    assert accelerator.current_device_index() == 0


def test_wrong_device_index():
    with pytest.raises(RuntimeError, match="device index 77 was asked for"):
        accelerator.set_device_index(77)
    assert accelerator.current_device_index() == 0


def test_capability(device):
    dtypes = accelerator.get_device_capability(device)["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool} <= dtypes


def test_streams(device):
    stream = torch.Stream(device)
    previous = accelerator.current_stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream
    accelerator.set_stream(previous)
    assert accelerator.current_stream(device) == previous
    accelerator.synchronize()
    accelerator.synchronize(device)


def test_memory(device):
    accelerator.synchronize()
    before = accelerator.memory_allocated()
    accelerator.reset_peak_memory_stats()
    x = torch.empty(1 << 21, dtype=torch.uint8, device=device)
    assert accelerator.memory_allocated(device) == before + (1 << 21)
    assert accelerator.memory_reserved() >= 1 << 21
    del x
    assert accelerator.max_memory_allocated() >= before + (1 << 21)
    assert accelerator.max_memory_reserved() >= accelerator.memory_reserved()
    accelerator.reset_accumulated_memory_stats()
    stats = accelerator.memory_stats()
    assert stats["allocated_bytes.all.freed"] == 0
    assert "num_ooms" in stats
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total
    accelerator.empty_cache()
    if hasattr(accelerator, "empty_host_cache"):
        accelerator.empty_host_cache()


def test_pinned_memory_is_the_devices(device):
    x = torch.ones(10).pin_memory()
    assert x.is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    torch.testing.assert_close(x.to(device, non_blocking=True).cpu(), x)
