"""What torch.amp.GradScaler does, by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu

unscale = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_
update = torch.ops.aten._amp_update_scale_


@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan"), float("-inf")], ids=str)
def test_unscale(device, wrong):
    torch.manual_seed(0)
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


@pytest.mark.parametrize(
    ("scale", "steps", "found"),
    [(8.0, 0, 0.0), (8.0, 2, 0.0), (8.0, 2, 1.0), (3e38, 2, 0.0)],
)
def test_update_of_the_scale(device, scale, steps, found):
    def run(scale: torch.Tensor, steps: torch.Tensor, found: torch.Tensor):
        result = update(scale, steps, found, 2.0, 0.5, 3)
        assert result is scale
        return scale, steps

    state = (torch.tensor([scale]), torch.tensor([steps], dtype=torch.int32), torch.tensor([found]))
    assert_as_on_cpu(device, run, *state)
