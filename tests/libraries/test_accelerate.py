"""accelerate: the device by the integration, a training loop, mixed precision."""

from __future__ import annotations

import pytest
import torch

from tests.libraries.models import ROOT
from tests.support import run_python, try_python

pytest.importorskip("accelerate")

PROGRAM = f"""
import sys
sys.path.append({str(ROOT)!r})
import torch
import torch_outboard.integrations

device, mixed = sys.argv[1:]
if device != "cpu":
    assert torch_outboard.integrations.enable("accelerate") == ["accelerate"]
import accelerate

accelerator = accelerate.Accelerator(cpu=device == "cpu", mixed_precision=mixed)
assert accelerator.device.type == device, accelerator.device
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(0, 3, (80,)))
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model, optimizer, loader, schedule = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, batch_size=4), schedule
)
losses = []
for x, y in loader:
    assert x.device.type == device
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).item())
accelerator.save_state("state")
accelerator.load_state("state")
print(losses)
"""


def losses(device: str, mixed: str, folder: object) -> torch.Tensor:
    program = f"import os; os.chdir({str(folder)!r})\n{PROGRAM}"
    out = run_python(program, device, mixed, ACCELERATE_TORCH_DEVICE=None, timeout=300)
    return torch.tensor(eval(out.strip().splitlines()[-1]))


@pytest.mark.parametrize("mixed", ["no", "bf16"])
def test_a_training_loop(device, mixed, tmp_path):
    ours, theirs = losses(device.type, mixed, tmp_path), losses("cpu", mixed, tmp_path)
    assert len(ours) == 20
    torch.testing.assert_close(ours, theirs, rtol=2e-2 if mixed == "bf16" else 1e-4, atol=1e-4)


def test_float16_is_refused_by_name(device, tmp_path):
    """What README.md says of it."""
    result = try_python(f"import os; os.chdir({str(tmp_path)!r})\n{PROGRAM}", device.type, "fp16")
    assert result.returncode != 0
    assert "fp16 mixed precision requires a device in" in result.stderr


def test_too_late(device):
    run_python(
        """
import pytest
import accelerate
import torch_outboard.integrations

assert accelerate.Accelerator().device.type == "cpu"
with pytest.warns(UserWarning, match="accelerate has chosen cpu already"):
    torch_outboard.integrations.enable("accelerate")
""",
        ACCELERATE_TORCH_DEVICE=None,
    )
