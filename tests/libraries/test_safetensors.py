"""safetensors: save from the device, load to it by its index, and by its name after `enable()`."""

import pytest
import torch

from tests.libraries.enabled import same_losses

safetensors = pytest.importorskip("safetensors.torch")

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn)


def test_tensors(device, tmp_path):
    drawn = {str(dtype): torch.randn(3, 5).to(dtype) for dtype in DTYPES}
    path = tmp_path / "x.safetensors"
    safetensors.save_file({name: value.to(device) for name, value in drawn.items()}, path)
    for location in ("cpu", device.index):
        for name, loaded in safetensors.load_file(path, device=location).items():
            assert loaded.device == torch.device("cpu" if location == "cpu" else device)
            assert torch.equal(loaded.cpu().view(torch.uint8), drawn[name].view(torch.uint8))


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


NAMED = """
import safetensors.torch
name = "cpu" if where == "cpu" else settings[0]
safetensors.torch.save_file({"x": torch.randn(3), "y": torch.ones(2, 2)}, "x.safetensors")
loaded = safetensors.torch.load_file("x.safetensors", device=name)
with safetensors.safe_open("x.safetensors", framework="pt", device=name) as file:
    part = file.get_slice("x")[1:]
    assert part.device == loaded["x"].device == file.get_tensor("y").device
shown = part.device.type, [*loaded["x"].tolist(), *part.tolist()]
"""


@pytest.mark.parametrize("index", [False, True])
def test_names(device, tmp_path, index):
    name = str(device) if index else device.type
    same_losses(NAMED, device, "safetensors", tmp_path, name)


def test_names_are_refused_without_the_integration(device, tmp_path):
    """The example of docs/start/models.md."""
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": torch.ones(1)}, path)
    with pytest.raises(Exception, match=f"device {device} is invalid"):
        safetensors.load_file(path, device=str(device))
