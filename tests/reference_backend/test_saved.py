"""Storages, files and metadata."""

from __future__ import annotations

import io
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._utils import get_tensor_metadata

from torch_outboard.device.serialization import set_tensor_metadata

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
]
# What users attach; in the form that PyTorch saves.
STRINGS = {"version": "1", "format": "29"}
METADATA = {"outboard:version=1": True, "outboard:format=29": True}


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


def test_places_of_loaded_tensors(device):
    x = torch.randn(3, 3, device=device)
    last = torch.device(device.type, torch.accelerator.device_count() - 1)
    for place in (device, last, torch.device("cpu")):
        loaded = torch.load(saved(x), map_location=place)
        assert loaded.device == place
        assert torch.equal(loaded.cpu(), x.cpu())


def test_metadata_is_saved_and_copied(device):
    x = torch.ones(3, 3, device=device)
    assert get_tensor_metadata(x) == {}
    set_tensor_metadata(x, STRINGS)
    assert get_tensor_metadata(x) == METADATA
    assert get_tensor_metadata(torch.load(saved(x))) == METADATA
    assert get_tensor_metadata(torch.load(saved(x), map_location="cpu")) == {}
    other = torch.empty(3, 3, device=device)
    assert get_tensor_metadata(other) == {}
    if hasattr(torch._C, "_copy_backend_meta"):  # newer than PyTorch 2.13
        torch._C._copy_backend_meta(x, other)
        assert get_tensor_metadata(other) == METADATA


def test_metadata_of_fake_tensors(device):
    x = torch.ones(3, 3, device=device)
    set_tensor_metadata(x, STRINGS)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert fake.device == device
        # PyTorch 2.13 and before do not hand it over.
        assert get_tensor_metadata(fake) in ({}, METADATA)


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


def test_capsules(device):
    x = torch.randn(2, 3, device=device)
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == device
    assert torch.equal(x, y)
