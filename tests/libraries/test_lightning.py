"""Lightning: the accelerator by name, devices, mixed precision."""

import subprocess
import sys

import pytest
import torch

from tests.support import ROOT
from torch_outboard.integrations import disable, enable

lightning = pytest.importorskip("lightning")

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3)
        )
        self.seen: list[tuple[str, object]] = []
        self.losses: list[float] = []

    def training_step(self, batch, index):
        x, y = batch
        out = self.layers(x)
        self.seen.append((self.device.type, out.dtype))
        loss = torch.nn.functional.cross_entropy(out, y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def trained(**settings: object) -> tuple[Module, object]:
    torch.manual_seed(0)
    module = Module()
    data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(0, 3, (80,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    trainer = lightning.Trainer(**settings, **QUIET, max_epochs=1)
    trainer.fit(module, loader)
    return module, trainer


@pytest.fixture(autouse=True)
def enabled(device):
    enable("lightning")
    yield
    disable("lightning")
    assert device.type not in lightning.pytorch.accelerators.AcceleratorRegistry


@pytest.mark.parametrize(("name", "devices"), [("name", 1), ("auto", [0])])
def test_by_name(device, name, devices):
    theirs, _ = trained(accelerator="cpu")
    ours, _ = trained(accelerator=device.type if name == "name" else name, devices=devices)
    assert {location for location, _ in ours.seen} == {device.type}
    torch.testing.assert_close(ours.losses, theirs.losses, rtol=1e-4, atol=1e-4)


SCRIPT = """
import sys
sys.path.append(sys.argv[1])
import torch
from torch_outboard.integrations import enable
enable("lightning")
from tests.libraries.test_lightning import trained

module, trainer = trained(accelerator=sys.argv[2], devices=2, strategy="ddp")
assert {location for location, _ in module.seen} == {sys.argv[2]}
assert module.device.index in (trainer.local_rank, None)
if trainer.global_rank == 0:
    print("SHOWN", [sum(p.abs().sum().item() for p in module.parameters()), *module.losses])
"""


def test_two_devices(device, tmp_path):
    """A process for each, started by Lightning, which starts the script again."""
    if torch.accelerator.device_count() < 2:
        pytest.skip("there is one device")
    (tmp_path / "script.py").write_text(SCRIPT)
    found = {}
    for location in (device.type, "cpu"):
        command = [sys.executable, "script.py", str(ROOT), location]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        (line,) = (line for line in result.stdout.splitlines() if line.startswith("SHOWN"))
        found[location] = torch.tensor(eval(line.removeprefix("SHOWN")))
    torch.testing.assert_close(found[device.type], found["cpu"], rtol=1e-4, atol=1e-4)


def test_missing_devices(device):
    with pytest.raises(ValueError, match="there is no device 99 among"):
        trained(accelerator=device.type, devices=[99])


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("16-mixed", torch.float16),
        ("bf16-true", torch.bfloat16),
    ],
)
def test_precision(device, precision, dtype):
    ours, _ = trained(accelerator=device.type, devices=1, precision=precision)
    assert set(ours.seen) == {(device.type, dtype)}
    exact, _ = trained(accelerator="cpu")
    torch.testing.assert_close(ours.losses, exact.losses, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_fabric(device, precision):
    losses = {}
    for location in ("cpu", device.type):
        fabric = lightning.fabric.Fabric(
            accelerator=location, devices=1, precision=precision if location != "cpu" else "32-true"
        )
        torch.manual_seed(0)
        module = torch.nn.Linear(8, 3)
        module, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
        generator = torch.Generator().manual_seed(1)
        losses[location] = []
        for _ in range(5):
            x = fabric.to_device(torch.randn(4, 8, generator=generator))
            assert x.device.type == location
            loss = module(x).square().mean()
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses[location].append(loss.item())
    closeness = 1e-4 if precision == "32-true" else 5e-2
    torch.testing.assert_close(losses[device.type], losses["cpu"], rtol=closeness, atol=closeness)
