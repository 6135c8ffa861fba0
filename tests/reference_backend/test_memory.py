"""Memory, storages and files."""

from __future__ import annotations

import gc
import io
import pickle

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")]

WORK = (
    lambda device: [torch.empty(size, device=device) for size in (100, 500, 1000, 5000, 10000)],
    lambda device: torch.randn(500, device=device).cpu().to(device).clone(),
    lambda device: torch.randn(1000, device=device).view(10, 100)[2:5].reshape(20, 15),
    lambda device: torch.ones(1000, device=device).add_(1).mul_(2).div_(2).sub_(1),
    lambda device: torch.randn(100, device=device, requires_grad=True) + 1,
    lambda device: torch.empty(50 << 20, dtype=torch.uint8, device=device),
)


def test_nothing_leaks(device, device_module):
    def memory(rounds):
        for _ in range(rounds):
            for work in WORK:
                work(device)
        device_module.synchronize()
        gc.collect()
        return device_module.memory_allocated(), device_module.memory_reserved()

    allocated, reserved = memory(1)
    now_allocated, now_reserved = memory(20)
    assert now_allocated == allocated
    # Two allocations may have been in flight at once in the first round and not in the second.
    assert now_reserved <= reserved + (50 << 20)


def test_resizing_keeps_the_memory(device):
    x = torch.arange(100.0, device=device)
    address = x.data_ptr()
    x.resize_(50)
    x.resize_(100)
    assert x.data_ptr() == address
    assert x.sum() == 4950
    x.resize_(2, 2, 5, 5)
    assert (x.shape, x.storage().size()) == ((2, 2, 5, 5), 100)


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


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_tags_of_storages(device):
    for index in range(torch.accelerator.device_count()):
        where = torch.device(device.type, index)
        tag = f"{device.type}:{index}"
        assert torch.serialization.location_tag(torch.UntypedStorage(4, device=where)) == tag
        moved = torch.serialization.default_restore_location(torch.ones(4).storage(), tag)
        assert getattr(moved, f"is_{device.type}")
        assert moved.device == where
    unindexed = torch.UntypedStorage(4, device=torch.device(device.type))
    assert torch.serialization.location_tag(unindexed) == f"{device.type}:0"


def test_tensors_without_storage_are_saved_by_way_of_the_host(device, monkeypatch):
    x = torch.randn(2, 3)
    moved = x.to(device)
    with monkeypatch.context() as patch:
        patch.setattr(torch._C, "_has_storage", lambda tensor: False)
        rebuild = moved._reduce_ex_internal(torch.serialization.DEFAULT_PROTOCOL)[0]
        assert rebuild is torch._utils._rebuild_device_tensor_from_cpu_tensor
        file = saved({"x": moved})
        words = "Cannot serialize tensors on backends with no storage"
        with pytest.raises(RuntimeError, match=words), torch.serialization.skip_data():
            torch.save({"x": moved}, io.BytesIO())
    loaded = torch.load(file, weights_only=True)["x"]
    assert loaded.device == device
    assert torch.equal(loaded.cpu(), x)
    file.seek(0)
    assert torch.load(file, weights_only=True, map_location="cpu")["x"].device.type == "cpu"


def test_tensors_that_were_saved_as_arrays(device):
    class Old:
        """A tensor as PyTorch before 2.0 wrote those of other devices."""

        def __reduce__(self):
            array = torch.arange(6.0).view(2, 3).numpy()
            rebuild = torch._utils._rebuild_device_tensor_from_numpy
            return rebuild, (array, torch.float32, str(device), False)

    for place, expected in ((None, device), ("cpu", torch.device("cpu"))):
        file = saved(Old())
        loaded = torch.load(file, map_location=place, weights_only=False)
        assert loaded.device == expected
        assert loaded.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert pickle.loads(pickle.dumps(Old())).device == device
