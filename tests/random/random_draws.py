"""Shared by tests of random numbers."""

from collections.abc import Callable
from typing import TypeVar

import torch
from scipy import stats

T = TypeVar("T")

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGRAL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# A right distribution fails with this probability, and seeds are fixed.
SIGNIFICANCE = 1e-4

FILLS = {
    "uniform": lambda t, g=None: t.uniform_(generator=g),
    "normal": lambda t, g=None: t.normal_(generator=g),
    "exponential": lambda t, g=None: t.exponential_(generator=g),
    "cauchy": lambda t, g=None: t.cauchy_(generator=g),
    "log_normal": lambda t, g=None: t.log_normal_(generator=g),
    "geometric": lambda t, g=None: t.geometric_(0.25, generator=g),
    "bernoulli": lambda t, g=None: t.bernoulli_(0.3, generator=g),
    "random": lambda t, g=None: t.random_(generator=g),
    "random_small": lambda t, g=None: t.random_(-5, 100, generator=g),
    "random_large": lambda t, g=None: t.random_(0, 2**24 + 1, generator=g),
}  # fmt: skip


# Operators of one tensor of parameters in (0, 1), which draw by rejection.
SAMPLERS = {
    "poisson": lambda t, g=None: torch.poisson(t * 30, generator=g),
    "binomial": lambda t, g=None: torch.binomial((t * 90).floor(), 1 - t * t, generator=g),
    "gamma": lambda t, g=None: torch._standard_gamma(t * 2, generator=g),
    "dirichlet": lambda t, g=None: torch._sample_dirichlet(t * 2, generator=g),
}  # fmt: skip
DRAWS = [*FILLS.values(), *SAMPLERS.values()]


def seeded(generator: torch.Generator, seed: int, offset: int = 0) -> torch.Generator:
    generator.manual_seed(seed)
    generator.set_offset(offset)
    return generator


def with_threads(count: int, draw: Callable[[], T]) -> T:
    """Numbers drawn by so many threads of the host."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return draw()
    finally:
        torch.set_num_threads(before)


def assert_same_distribution(values: torch.Tensor, cdf: object) -> None:
    result = stats.kstest(values.cpu().double().numpy(), cdf)
    assert result.pvalue > SIGNIFICANCE, result
