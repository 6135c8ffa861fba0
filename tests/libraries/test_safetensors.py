"""safetensors: save from the device, load to it by its number.

Names of devices that it does not know are refused in Rust; a number is that of the accelerator.
"""

from __future__ import annotations

import pytest
import torch

safetensors = pytest.importorskip("safetensors.torch")

DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool,
    torch.uint8, torch.float8_e4m3fn,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors(device, tmp_path, dtype):
    drawn = torch.randn(3, 5).to(dtype)
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": drawn.to(device)}, path)
    for place in ("cpu", device.index):
        loaded = safetensors.load_file(path, device=place)["x"]
        assert loaded.device == torch.device("cpu" if place == "cpu" else device)
        assert torch.equal(loaded.cpu().view(torch.uint8), drawn.view(torch.uint8))


def test_modules(device, tmp_path):
    """With two names for one parameter."""
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)}).to(device)
    model["b"].weight = model["a"].weight
    path = tmp_path / "x.safetensors"
    safetensors.save_model(model, path)
    other = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)}).to(device)
    other["b"].weight = other["a"].weight
    safetensors.load_model(other, path, device=device.index)
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_names_are_refused(device, tmp_path):
    """What README.md says of it."""
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": torch.ones(1)}, path)
    with pytest.raises(Exception, match=f"device {device} is invalid"):
        safetensors.load_file(path, device=str(device))
