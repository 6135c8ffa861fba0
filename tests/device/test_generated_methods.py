"""Methods and properties that carry the name of the device."""

import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

pytestmark = [
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]
# Stored, viewed and copied everywhere; most have no kernels on whatever device.
STORED = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2,
    torch.complex32, torch.uint16, torch.uint32, torch.uint64, torch.bool,
    torch.bits8, torch.bits16, torch.uint4, torch.int4, torch.uint1, torch.int1,
)  # fmt: skip


def moves(device):
    """Forms that name the device: a method without argument, with an index, and so on."""
    return ((), (device.index,), (device,), (f"{device.type}:{device.index}",))


def test_tensors(device):
    x = torch.arange(6.0).view(2, 3)
    for where in moves(device):
        moved = getattr(x, device.type)(*where)
        assert moved.device == device
        assert torch.equal(moved.cpu(), x)
    assert getattr(moved, device.type)() is moved
    assert getattr(moved, f"is_{device.type}")
    assert not getattr(x, f"is_{device.type}")
    image = getattr(torch.ones(1, 2, 3, 4), device.type)(memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)


def test_modules_and_packed_sequences(device):
    for where in moves(device):
        layer = getattr(nn.Linear(2, 2), device.type)(*where)
        assert {parameter.device for parameter in layer.parameters()} == {device}
        packed = getattr(pack_sequence([torch.ones(3), torch.ones(2)]), device.type)(*where)
        assert packed.data.device == device
        assert getattr(packed, f"is_{device.type}")
        assert packed.cpu().data.device.type == "cpu"


def test_untyped_storages(device):
    storage = torch.arange(4.0).untyped_storage()
    for where in moves(device)[:3]:
        moved = getattr(storage, device.type)(*where)
        assert moved.device == device
        assert getattr(moved, f"is_{device.type}")
        assert moved.cpu().tolist() == storage.tolist()
    assert not getattr(storage, f"is_{device.type}")
    moved.fill_(3)
    moved[2] = 9
    assert moved.clone().tolist() == moved.tolist() == [3, 3, 9, *[3] * 13]
    file = io.BytesIO()
    torch.save(moved, file)
    file.seek(0)
    assert torch.load(file, weights_only=False).device == device


def test_typed_storages(device, device_module):
    x = torch.arange(4.0)
    storage = x.storage()
    moved = getattr(storage, device.type)()
    assert (moved.device, moved.dtype, moved.tolist()) == (device, torch.float32, [0, 1, 2, 3])
    assert getattr(moved, f"is_{device.type}")
    moved[1] = 5.0
    assert moved[1] == 5.0
    assert moved.double().tolist() == [0, 5, 2, 3]
    assert moved.clone().device == device
    assert pickle.loads(pickle.dumps(moved)).tolist() == [0, 5, 2, 3]
    assert moved.type() == f"torch.{device.type}.FloatStorage"
    there = x.to(device)
    torch.storage._reset_warn_typed_storage_removal()
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        kind = there.storage_type()
    assert kind is device_module.FloatStorage
    assert isinstance(there.storage(), kind)
    assert not isinstance(storage, kind)
    assert isinstance(there.long().storage(), device_module.LongStorage)


@pytest.mark.separate
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_dtypes_that_are_only_stored(device, dtype):
    bits = torch.tensor([0, 1, 1, 0, 1, 0, 1, 1], dtype=torch.uint8)
    x = bits.view(dtype)
    moved = getattr(x, device.type)()
    assert (moved.device, moved.dtype) == (device, dtype)
    assert torch.equal(moved.cpu().view(torch.uint8), bits)
    assert torch.equal(moved.clone().view(torch.uint8).cpu(), bits)
    storage = getattr(x.storage(), device.type)()
    assert (storage.device, storage.dtype) == (device, dtype)
    assert getattr(x.untyped_storage(), device.type)().cpu().tolist() == bits.tolist()


def test_names_are_given_once(device):
    torch.utils.rename_privateuse1_backend(device.type)  # the same name again does nothing
    with pytest.raises(RuntimeError, match="already been set"):
        torch.utils.rename_privateuse1_backend("other")
    assert torch.device("privateuseone", 0) == device
    assert torch._C._get_privateuse1_backend_name() == device.type
    assert torch.accelerator.current_accelerator() == torch.device(device.type)
