"""A program that asks `torch.accelerator`, as PyTorch's guide writes it, runs unchanged."""

from __future__ import annotations

import pytest
import torch

from tests.support import run_python

PROGRAM = """
import sys
import torch
from torch import nn

if torch.accelerator.is_available() and sys.argv[1] != "cpu":
    device = torch.accelerator.current_accelerator()
    assert device.type == sys.argv[1]
    assert torch.accelerator.device_count() >= 1
    torch.accelerator.set_device_index(0)
else:
    device = torch.device("cpu")

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 3))
data = torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randint(0, 3, (40,)))
on_device = device.type != "cpu"
loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=on_device)
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device.type, enabled=False)
losses = []
if on_device:
    stream = torch.Stream(device)
    event = torch.Event(device, enable_timing=True)
    torch.accelerator.reset_peak_memory_stats()
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    with torch.autocast(device.type, enabled=False):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
if on_device:
    with torch.accelerator.device_index(0), stream:
        assert torch.accelerator.current_stream() == stream
        doubled = x * 2
        event.record()
    event.synchronize()
    torch.accelerator.synchronize()
    assert torch.equal(doubled.cpu(), x.cpu() * 2)
    assert torch.accelerator.memory_allocated() > 0
    assert torch.accelerator.max_memory_reserved() >= torch.accelerator.max_memory_allocated()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] > 0
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    torch.accelerator.empty_cache()
    torch.save(model.state_dict(), "model.pt")
    torch.load("model.pt", map_location=torch.accelerator.current_accelerator())
print(losses)
"""


@pytest.mark.by_turns(2)
def test_training(device: torch.device, tmp_path) -> None:
    code = f"import os\nos.chdir({str(tmp_path)!r})\n{PROGRAM}"
    ours, theirs = (eval(run_python(code, place)) for place in (device.type, "cpu"))
    assert len(ours) == 5
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-4)
