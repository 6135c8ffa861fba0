"""Random numbers in compiled graphs are those of eager mode for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from torch_outboard.inductor.passes import in_order, random_numbers

pytestmark = pytest.mark.by_turns(3)

Draw = Callable[[torch.Tensor], torch.Tensor]


def test_numbers_are_those_of_eager_mode(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.dropout(x, 0.3),
            torch.rand(5, 7, device=x.device),
            F.dropout(x.sin(), 0.1),
            torch.randn(3, device=x.device),
            torch.bernoulli(x.detach(), 0.4),
        )

    def drawn(function: Callable[..., Any], seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        results = [*function(x), *function(x)]
        # By the same masks.
        total = sum(result.sum() for result in results if result.requires_grad)
        return [*results, *torch.autograd.grad(total, x)]

    compiled = torch.compile(function)
    x = torch.randn(33, 10, device=device, requires_grad=True)
    for seed in (0, 1):
        for want, got in zip(drawn(function, seed), drawn(compiled, seed), strict=True):
            torch.testing.assert_close(got.cpu(), want.cpu(), rtol=1e-6, atol=1e-6)
            assert torch.equal(got.cpu() == 0, want.cpu() == 0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: F.dropout(x, 0.3).sum(-1),
        lambda x: F.dropout(x.transpose(0, 2), 0.3) + 1,
        lambda x: F.dropout(x[:, 1:, 3:], 0.3).sum(0),
        lambda x: F.dropout(x[:, :, :23], 0.3).sum(-1),
        lambda x: torch.rand_like(x)[:, 1:],
    ],
    ids=["rows", "transposed", "over rows", "rows of 23", "part"],
)
def test_vectors_that_begin_anywhere_have_the_same_numbers(device: torch.device, draw: Draw):
    x = torch.randn(4, 7, 68, device=device)
    torch.manual_seed(3)
    expected = draw(x)
    torch.manual_seed(3)
    torch.testing.assert_close(torch.compile(draw)(x).cpu(), expected.cpu())


def test_distributions_of_other_devices_decompositions(device: torch.device):
    """They are called, also where Inductor may call no operator that it was not told of."""
    x = torch.rand(33, device=device)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.clone().cauchy_(),
            x.clone().geometric_(0.5),
            x.clone().log_normal_(),
            x.clone().exponential_(),
            x.clone().normal_(1, 2),
            torch.normal(x, 1.0),
            torch.normal(0.0, x),
            torch.normal(x, x),
        )

    with torch._inductor.config.patch(implicit_fallbacks=False):
        torch.manual_seed(2)
        actual = torch.compile(function)(x)
    torch.manual_seed(2)
    for want, got in zip(function(x), actual, strict=True):
        assert torch.equal(got.cpu(), want.cpu())


def test_graphs_in_caches_depend_on_all_sources(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_order, "get_hash_for_files", lambda files: files)
    # As it is before anything is compiled.
    monkeypatch.setattr(random_numbers, "hash_of_sources", in_order.hash_of_sources.__wrapped__)
    sources = random_numbers.UseOwnNumbers(random_numbers.Words).uuid()[0]
    for name in (
        "scheduling.py",
        "kernel/body.py",
        "opencl/printer.py",
        "passes/random_numbers.py",
    ):
        assert any(source.endswith(f"inductor/{name}") for source in sources)
