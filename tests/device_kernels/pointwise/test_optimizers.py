"""Fused optimizers on the device against CPU's."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback

CASES = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True, "betas": (0.0, 0.999)}),
    (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("optimizer", "settings"), CASES)
def test_fused(device, optimizer, settings):
    torch.manual_seed(0)
    on_cpu = torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.Linear(33, 1))
    on_device = copy.deepcopy(on_cpu).to(device)
    reference = optimizer(on_cpu.parameters(), **settings, fused=True)
    tested = optimizer(on_device.parameters(), **settings, fused=True)
    gradients = torch.Generator().manual_seed(1)
    for _ in range(4):
        for a, b in zip(on_cpu.parameters(), on_device.parameters(), strict=True):
            a.grad = torch.randn(a.shape, generator=gradients)
            b.grad = a.grad.to(device)
        reference.step()
        with fallback.report() as report:
            tested.step()
    fused = {op: way for op, way in ways_of(report).items() if "_fused_" in op}
    assert list(fused.values()) == ["device"], report
    for a, b in zip(on_cpu.parameters(), on_device.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach())
    for a, b in zip(on_cpu.parameters(), on_device.parameters(), strict=True):
        for name, value in reference.state[a].items():
            torch.testing.assert_close(tested.state[b][name].cpu(), value, msg=name)


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_step_by_step(device, optimizer, foreach):
    """The same optimizers made of single operators, all of them on the device."""
    start = torch.randn(5, 8)
    parameters = [start.clone().requires_grad_(), start.to(device).requires_grad_()]
    for step, parameter in itertools.product(range(3), parameters):
        parameter.grad = torch.full((5, 8), 0.5 + step).to(parameter.device)
    optimizers = [optimizer([p], lr=0.1, foreach=foreach, fused=False) for p in parameters]
    for each in optimizers:
        each.step()
        each.step()
    torch.testing.assert_close(parameters[1].detach().cpu(), parameters[0].detach())
