"""Random numbers: the distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from tests.random import philox_reference as reference
from tests.random.random_draws import (
    FLOATING,
    INTEGRAL,
    SIGNIFICANCE,
    assert_same_distribution,
    seeded,
)

pytestmark = pytest.mark.separate


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("fill", "cdf"),
    [
        (lambda t: t.uniform_(-2, 5), stats.uniform(-2, 7).cdf),
        (lambda t: t.normal_(3, 0.5), stats.norm(3, 0.5).cdf),
        (lambda t: t.exponential_(4), stats.expon(scale=0.25).cdf),
        (lambda t: t.cauchy_(-1, 3), stats.cauchy(-1, 3).cdf),
        (lambda t: t.log_normal_(0.5, 0.8), stats.lognorm(0.8, scale=np.exp(0.5)).cdf),
    ],
    ids=["uniform", "normal", "exponential", "cauchy", "log_normal"],
)
def test_continuous_distribution(device, dtype, fill, cdf):
    torch.manual_seed(20)
    values = fill(torch.empty(100_000, dtype=dtype, device=device)).cpu()
    assert_same_distribution(values, cdf)
    for lag in (1, 2, 4):
        assert abs(stats.spearmanr(values[lag:], values[:-lag]).statistic) < 0.015


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGRAL])
def test_geometric_distribution(device, dtype):
    torch.manual_seed(21)
    p = 0.3
    values = torch.empty(100_000, dtype=dtype, device=device).geometric_(p).cpu().long()
    assert values.min() == 1
    counts = torch.bincount(values.clamp(max=15), minlength=16)[1:].numpy()
    expected = p * (1 - p) ** np.arange(15)
    expected[-1] = (1 - p) ** 14
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGRAL])
@pytest.mark.parametrize(("low", "high"), [(0, 10), (3, 100), (0, 2)])
def test_integers_are_uniform(device, dtype, low, high):
    torch.manual_seed(22)
    drawn = torch.empty(50_000, dtype=dtype, device=device).random_(low, high).cpu().long()
    counts = torch.bincount(drawn - low, minlength=high - low)
    assert len(counts) == high - low
    assert stats.chisquare(counts.numpy()).pvalue > SIGNIFICANCE


def test_multinomial_distribution(device):
    torch.manual_seed(23)
    weights = torch.tensor([1.0, 2.0, 0.0, 3.0, 4.0], device=device)
    expected = np.array([0.1, 0.2, 0.3, 0.4]) * 20_000
    rows = weights.expand(20_000, 5)
    for drawn in (
        torch.multinomial(weights, 20_000, replacement=True),
        torch.multinomial(rows, 1).squeeze(1),
        torch.multinomial(rows, 3)[:, 0],
        torch.multinomial(rows, 2, replacement=True)[:, 1],
    ):
        counts = torch.bincount(drawn.cpu(), minlength=5).numpy()
        assert counts[2] == 0
        assert stats.chisquare(counts[[0, 1, 3, 4]], expected).pvalue > SIGNIFICANCE
    without = torch.multinomial(rows, 4).cpu()
    assert torch.equal(without.sort(1).values, torch.tensor([0, 1, 3, 4]).expand(20_000, 4))


@pytest.mark.parametrize("n", [0, 1, 2, 255, 5000, 100_000])
def test_randperm_is_a_permutation(device, n):
    drawn = torch.randperm(n, device=device)
    assert drawn.dtype == torch.int64
    assert torch.equal(drawn.cpu().sort().values, torch.arange(n))


def test_randperm_orders_the_draws(device, generator):
    drawn = torch.randperm(3000, generator=seeded(generator, 8), device=device)
    expected = np.argsort(reference.draws_64(3000, 8, 0), kind="stable")
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)
