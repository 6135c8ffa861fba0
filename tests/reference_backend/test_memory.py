"""Memory: what is allocated comes back, views share it, devices do not."""

from __future__ import annotations

import gc

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")]


def empties(device):
    for size in (100, 500, 1000, 5000, 10000):
        torch.empty(size, device=device)


def copies(device):
    x = torch.randn(500, device=device)
    x.cpu().to(device).clone()


def views(device):
    x = torch.randn(1000, device=device)
    _ = x.view(10, 100), x[100:200], x.reshape(20, 50)


def in_place(device):
    torch.ones(1000, device=device).add_(1).mul_(2).div_(2).sub_(1)


def gradients(device):
    x = torch.randn(100, device=device, requires_grad=True)
    _ = x + torch.randn(100, device=device, requires_grad=True)


def large(device):
    torch.empty(50 << 20, dtype=torch.uint8, device=device)


def many(device):
    _ = [torch.empty(1000, device=device) for _ in range(100)]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("work", [empties, copies, views, in_place, gradients, large, many])
def test_nothing_leaks(device, device_module, work):
    work(device)
    device_module.synchronize()
    gc.collect()
    allocated, reserved = device_module.memory_allocated(), device_module.memory_reserved()
    for _ in range(20):
        work(device)
    device_module.synchronize()
    gc.collect()
    assert device_module.memory_allocated() == allocated
    # Two allocations may have been in flight at once in the first round and not in the second.
    assert device_module.memory_reserved() <= reserved + (50 << 20)


def test_resizing_keeps_the_memory(device):
    x = torch.arange(100.0, device=device)
    address = x.data_ptr()
    x.resize_(50)
    x.resize_(100)
    assert x.data_ptr() == address
    assert x.sum() == 4950
    x.resize_(2, 2, 5, 5)
    assert (x.shape, x.storage().size()) == ((2, 2, 5, 5), 100)


def test_data_of_another_device(device, shares_memory):
    for here, there in (("cpu", device), (device, "cpu")):
        x, other = torch.zeros(4, 4, device=here), torch.ones(4, 4, device=there)
        assert torch._has_compatible_shallow_copy_type(x, other)
        x.data = other
        assert x.device == other.device
        assert x.data_ptr() == other.data_ptr()
        assert torch.equal(x, other)


def test_forms_of_memory(device):
    x = torch.empty(2, 3, 4, 4, device=device, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    x = torch.empty(2, 3, 4, 4, device=device, memory_format=torch.contiguous_format)
    assert x.is_contiguous()
    assert x.view_as(x).data_ptr() == x.data_ptr()
    assert x.storage().device == device


def test_pinned_tensors_and_storages(device):
    x = torch.randn(10)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[2:5].is_pinned()
    for storage in (x.storage(), x.untyped_storage()):
        assert not storage.is_pinned(device.type)
        assert storage.pin_memory(device.type).is_pinned(device.type)
    part = torch.tensor((), dtype=torch.float32).set_(
        pinned.untyped_storage()[2:], size=(5,), stride=(1,), storage_offset=0
    )
    assert part.is_pinned()
    assert part.data_ptr() != pinned.data_ptr()


@pytest.mark.skipif("torch.accelerator.device_count() < 2", reason="there is one device")
def test_devices_have_their_own_memory(device):
    tensors = [torch.full((1000,), float(i), device=f"{device.type}:{i % 2}") for i in range(20)]
    assert [x.device.index for x in tensors] == [0, 1] * 10
    assert len({x.data_ptr() for x in tensors}) == 20
    moved = tensors[2].to(tensors[1].device)
    assert moved.data_ptr() != tensors[2].data_ptr()
    assert torch.equal(moved.cpu(), tensors[2].cpu())
    assert torch.equal(moved.to(device).cpu(), tensors[2].cpu())
