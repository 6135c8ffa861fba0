"""Training steps of real networks run on the device alone: no operator takes the host's way."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.device_kernels.small_models import MODELS, loss_of
from torch_outboard import fallback

# Reading one number from the device is no work.
READS = {"aten::_local_scalar_dense"}


def train(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor], steps: int) -> list:
    # With a small eps, the step of a gradient near zero is its sign, which rounding decides.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(batch[0]), batch[1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_training_step_is_native(device, name):
    torch.manual_seed(0)
    make, draw = MODELS[name]
    model, batch = make(), draw()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # CPU draws other numbers
        if isinstance(module, (torch.nn.LSTM, torch.nn.MultiheadAttention)):
            module.dropout = 0.0
    on_device = copy.deepcopy(model).to(device)
    moved = tuple(tensor.to(device) for tensor in batch)
    with fallback.report() as report:
        losses = train(on_device, moved, 3)
    # By float64: of ResNet-18, float32 on CPU differs from that by up to 2e-5 of itself on some.
    doubles = [x.double() if x.is_floating_point() else x for x in batch]
    expected = train(model.double(), (doubles[0], doubles[1]), 3)
    torch.testing.assert_close(
        torch.stack(losses).cpu().double(), torch.stack(expected), rtol=1e-5, atol=2e-6
    )
    on_host = {row.op for row in report.rows if row.way != "device"} - READS
    assert not on_host
