"""Random numbers in compiled graphs are those of eager mode for the same seed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.by_turns(2)
def test_numbers_are_those_of_eager_mode(device: torch.device):
    """Also where vectors of kernels begin anywhere, or go over rows."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.dropout(x, 0.3), torch.rand(5, 7, device=x.device), F.dropout(x.sin(), 0.1),
            torch.randn(3, device=x.device), torch.bernoulli(x.detach(), 0.4),
            F.dropout(y, 0.3).sum(-1), F.dropout(y.transpose(0, 2), 0.3) + 1,
            F.dropout(y[:, 1:, 3:], 0.3).sum(0), F.dropout(y[:, :, :23], 0.3).sum(-1),
            torch.rand_like(y)[:, 1:],
        )  # fmt: skip

    def drawn(function: Callable[..., Any], seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        results = [*function(x, y), *function(x, y)]
        # By the same masks.
        total = sum(result.sum() for result in results if result.requires_grad)
        return [*results, *torch.autograd.grad(total, x)]

    compiled = torch.compile(function)
    x = torch.randn(33, 10, device=device, requires_grad=True)
    y = torch.randn(4, 7, 68, device=device)
    for seed in (0, 1):
        for want, got in zip(drawn(function, seed), drawn(compiled, seed), strict=True):
            torch.testing.assert_close(got.cpu(), want.cpu())
            assert torch.equal(got.cpu() == 0, want.cpu() == 0)


@pytest.mark.by_turns(3)
def test_distributions_of_other_devices_decompositions(device: torch.device):
    """They are called, also where Inductor may call no operator that it was not told of."""
    x = torch.rand(33, device=device)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.clone().cauchy_(), x.clone().geometric_(0.5), x.clone().log_normal_(),
            x.clone().exponential_(), x.clone().normal_(1, 2), torch.normal(x, 1.0),
            torch.normal(0.0, x), torch.normal(x, x),
        )  # fmt: skip

    with torch._inductor.config.patch(implicit_fallbacks=False):
        torch.manual_seed(2)
        actual = torch.compile(function)(x)
    torch.manual_seed(2)
    for want, got in zip(function(x), actual, strict=True):
        assert torch.equal(got.cpu(), want.cpu())
