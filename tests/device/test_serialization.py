"""Saving, loading, copying and pickling tensors and storages of the device."""

import io
import pickle

import pytest
import torch
from torch._utils import get_tensor_metadata

from tests.support import run_python
from torch_outboard.device import serialization

DTYPES = [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e4m3fn]


def saved(thing: object, **options: bool) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(thing, buffer, **options)
    buffer.seek(0)
    return buffer


def sample(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.arange(24).reshape(4, 6).to(dtype).to(device)


# ---- torch.save and torch.load


@pytest.mark.separate
@pytest.mark.faults
@pytest.mark.parametrize("zipfile", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_round_trip(device, weights_only, zipfile):
    for dtype in DTYPES if zipfile else DTYPES[:-1]:  # the old format has no float8
        x = sample(dtype, device)
        buffer = saved(x, _use_new_zipfile_serialization=zipfile)
        loaded = torch.load(buffer, weights_only=weights_only)
        assert (loaded.device, loaded.dtype) == (device, dtype)
        assert torch.equal(loaded.cpu().view(torch.uint8), x.cpu().view(torch.uint8))


@pytest.mark.separate
def test_views(device):
    x = sample(torch.float32, device)
    whole, part = torch.load(saved((x, x[1:, ::2])))
    assert part.stride() == x[1:, ::2].stride()
    whole.fill_(5)
    assert part.cpu().eq(5).all()
    x = torch.randn(3, dtype=torch.complex64).to(device)
    conj, neg = (torch.load(saved(y)) for y in (x.conj(), x.conj().imag))
    assert conj.is_conj()
    assert neg.is_neg()
    torch.testing.assert_close(conj.cpu(), x.cpu().conj().resolve_conj())
    torch.testing.assert_close(neg.cpu(), x.cpu().conj().imag.resolve_neg())


def test_map_location(device):
    x = sample(torch.float32, device)
    name = f"{device.type}:0"
    to_cpu = ("cpu", {name: "cpu"}, lambda storage, location: storage)
    for location in to_cpu:
        loaded = torch.load(saved(x), map_location=location, weights_only=True)
        assert loaded.device.type == "cpu"
        torch.testing.assert_close(loaded, x.cpu())
    seen = []

    def to_device(storage, location):
        seen.append(location)
        return getattr(storage, device.type)()

    forms = (device.type, name, torch.device(device.type), {"cpu": name}, to_device)
    for location in forms:
        loaded = torch.load(saved(x.cpu()), map_location=location, weights_only=True)
        assert loaded.device == device, location
        torch.testing.assert_close(loaded.cpu(), x.cpu())
    assert seen == ["cpu"]
    assert torch.load(saved(x), map_location="meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(saved(x), map_location=f"{device.type}:50")
    unindexed = torch.UntypedStorage(4, device=torch.device(device.type))
    assert torch.serialization.location_tag(unindexed) == name


def test_map_location_to_another_device(device, second):
    x = sample(torch.float32, device)
    other = f"{device.type}:1"
    assert torch.load(saved(x), map_location=other).device == torch.device(other)
    assert torch.load(saved(x), map_location={f"{device.type}:0": other}).get_device() == 1
    y = x.to(other)
    assert torch.load(saved(y)).device == torch.device(other)
    assert torch.load(external_checkpoint(x, "ocl:1")).device == second


def external_checkpoint(x: torch.Tensor, tag: str) -> io.BytesIO:
    """A checkpoint in the old format, which has no checksums, with another tag."""
    buffer = saved(x.cpu(), _use_new_zipfile_serialization=False)
    content = buffer.getvalue()
    # A pickled string: opcode X, four bytes of length, text.
    old = b"X\x03\x00\x00\x00cpu"
    assert content.count(old) == 1
    new = b"X" + len(tag).to_bytes(4, "little") + tag.encode()
    return io.BytesIO(content.replace(old, new))


@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoint_of_another_driver(device, weights_only):
    x = sample(torch.float32, torch.device("cpu"))
    for tag in ("ocl:0", "ocl"):
        loaded = torch.load(external_checkpoint(x, tag), weights_only=weights_only)
        assert loaded.device == device
        torch.testing.assert_close(loaded.cpu(), x)
        on_cpu = torch.load(external_checkpoint(x, tag), map_location="cpu", weights_only=True)
        assert on_cpu.device.type == "cpu"
    # One with more devices, and a device that is unknown.
    with pytest.raises(RuntimeError, match=r"'ocl:40'.*map_location"):
        torch.load(external_checkpoint(x, "ocl:40"))
    with pytest.raises(RuntimeError, match="warp:0"):
        torch.load(external_checkpoint(x, "warp:0"))


def test_loads_in_another_process(device, tmp_path):
    torch.save(sample(torch.float32, device), tmp_path / "x.pt")
    out = run_python(
        "import sys, torch; x = torch.load(sys.argv[1]); print(x.device, x.sum().item())",
        str(tmp_path / "x.pt"),
    )
    assert out.split() == [str(device), "276.0"]


# ---- Metadata


def test_metadata_round_trip(device):
    x = sample(torch.float32, device)
    assert serialization.tensor_metadata(x) == {}
    pairs = {"layout": "tiled 4x4", "note": "a=b; c:d", "empty": ""}
    serialization.set_tensor_metadata(x, pairs)
    assert serialization.tensor_metadata(x) == pairs
    as_pytorch_saves_them = {f"outboard:{name}={value}": True for name, value in pairs.items()}
    assert get_tensor_metadata(x) == as_pytorch_saves_them
    other = torch.empty_like(x)
    assert get_tensor_metadata(other) == {}
    if hasattr(torch._C, "_copy_backend_meta"):  # newer than PyTorch 2.13
        torch._C._copy_backend_meta(x, other)
        assert get_tensor_metadata(other) == as_pytorch_saves_them
    for weights_only in (True, False):
        loaded = torch.load(saved(x), weights_only=weights_only)
        assert serialization.tensor_metadata(loaded) == pairs
    on_cpu = torch.load(saved(x), map_location="cpu")
    torch.testing.assert_close(on_cpu, x.cpu())
    serialization.set_tensor_metadata(x, {})
    assert serialization.tensor_metadata(torch.load(saved(x))) == {}


def test_wrong_metadata(device):
    with pytest.raises(ValueError, match="'='"):
        serialization.set_tensor_metadata(torch.ones(1, device=device), {"a=b": "c"})
    with pytest.raises(ValueError, match="on cpu"):
        serialization.set_tensor_metadata(torch.ones(1), {"a": "b"})
    sparse = torch.eye(2, device=device).to_sparse()
    with pytest.raises(ValueError, match="strided"):
        serialization.set_tensor_metadata(sparse, {"a": "b"})


# ---- Copies and pickles


def test_pickle(device):
    x = sample(torch.bfloat16, device).requires_grad_()
    for protocol in (2, 5):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert y.device == device
        assert y.requires_grad
        torch.testing.assert_close(y, x)
    parameter = torch.nn.Parameter(sample(torch.float32, device))
    assert isinstance(pickle.loads(pickle.dumps(parameter)), torch.nn.Parameter)
    assert pickle.loads(pickle.dumps(device)) == device
