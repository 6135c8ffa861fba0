"""Fused optimizers, and what torch.amp.GradScaler does, by device kernels against CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.device_kernels.conftest import ways_of
from tests.device_kernels.on_device import assert_as_on_cpu
from torch_outboard import fallback

CASES = [
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    (torch.optim.SGD, {}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.Adam, {"amsgrad": True, "maximize": True, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"weight_decay": 0.1}),
    (torch.optim.AdamW, {"amsgrad": True, "betas": (0.0, 0.999)}),
    (torch.optim.Adagrad, {"lr_decay": 0.01, "weight_decay": 0.1}),
]
SIZES = [(1,), (7, 5), (300,), (3, 4, 5)]
unscale = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_
update = torch.ops.aten._amp_update_scale_


@pytest.mark.parametrize(("scale", "found"), [(4.0, 0.0), (None, 0.0), (4.0, 1.0), (None, 1.0)])
@pytest.mark.parametrize(("make", "settings"), CASES)
def test_fused_with_a_scaler(device, make, settings, scale, found):
    """The first step without one, then with gradients to divide, in a step that may be none."""
    starts, gradients = ([torch.randn(s) for s in SIZES] for _ in range(2))

    def run(where: torch.device | str) -> list[Any]:
        parameters = [torch.nn.Parameter(x.clone().to(where)) for x in starts]
        optimizer: Any = make(parameters, lr=0.1, fused=True, **settings)
        for step in range(3):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = (gradient * (1 + step)).to(where)
            if step > 0:
                optimizer.grad_scale = None if scale is None else torch.tensor(scale).to(where)
                optimizer.found_inf = torch.tensor(found).to(where)
            optimizer.step()
        state = [value for p in parameters for value in optimizer.state[p].values()]
        return [*parameters, *(p.grad for p in parameters), *state]

    with fallback.report() as report:
        tested = run(device)
    ways = {op: way for op, way in ways_of(report).items() if "_fused_" in op}
    assert set(ways.values()) == {"device"}, ways
    for ours, theirs in zip(tested, run("cpu"), strict=True):
        if theirs is not None:  # SGD without momentum keeps none
            torch.testing.assert_close(ours.detach().cpu(), theirs.detach())


@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan"), float("-inf")], ids=str)
def test_unscale(device, wrong):
    gradients = [torch.randn(40, 3), torch.randn(()), torch.randn(0), torch.randn(6, 7).mT]
    if wrong is not None:
        gradients[3][2, 5] = wrong

    def run(scale: torch.Tensor, *gradients: torch.Tensor):
        found = torch.zeros(1, device=scale.device)
        halves = [x.bfloat16() for x in gradients]
        unscale(gradients, found, scale)
        before = found.clone()
        unscale(halves, found, scale)
        return before, found, *gradients, *halves

    assert_as_on_cpu(device, run, torch.tensor(2.0**-20), *gradients)


def test_update_of_the_scale(device):
    def run(scale: torch.Tensor, steps: torch.Tensor, found: torch.Tensor):
        assert update(scale, steps, found, 2.0, 0.5, 3) is scale
        return scale, steps

    for scale, steps, found in ((8.0, 0, 0.0), (8.0, 2, 0.0), (8.0, 2, 1.0), (3e38, 2, 0.0)):
        counted = torch.tensor([steps], dtype=torch.int32)
        state = torch.tensor([scale]), counted, torch.tensor([found])
        assert_as_on_cpu(device, run, *state)
