"""Bags of embeddings in compiled graphs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import moved

pytestmark = pytest.mark.by_turns(3)


@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("training", [False, True])
def test_values_and_gradients(
    device: torch.device, mode: str, include_last_offset: bool, training: bool
):
    def function(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor):
        bags = F.embedding_bag(
            indices, weight, offsets, mode=mode, include_last_offset=include_last_offset
        )
        if not training:
            return bags
        return bags, *torch.autograd.grad(bags.square().sum(), weight)

    weight = torch.randn(10, 6, requires_grad=training)
    arguments = (weight, torch.tensor([1, 4, 4, 9, 2, 0]), torch.tensor([0, 2, 6]))
    if not include_last_offset:
        arguments = (*arguments[:2], torch.tensor([0, 2, 5]))
    expected = function(*arguments)
    actual = torch.compile(function)(*moved(arguments, device))
    torch.testing.assert_close(moved(actual, "cpu"), moved(expected, "cpu"))
