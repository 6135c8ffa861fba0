"""Poisson, binomial, gamma and Dirichlet variables: values, distributions, ends, errors."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from tests.random import rejection_reference as reference
from tests.random.random_draws import SAMPLERS, assert_same_distribution, seeded

pytestmark = pytest.mark.by_turns(3)

DTYPES = (torch.float32, torch.float64)
COUNT = 20_000
TINY = {dtype: torch.finfo(dtype).tiny for dtype in DTYPES}


def constant(value: float, device: torch.device, count: int = COUNT) -> torch.Tensor:
    return torch.full((count,), value, dtype=torch.float64, device=device)


# ---- Values


@pytest.mark.parametrize("rate", [0.001, 9.75, 10.0, 31.5, 2000.0, 1e7])
def test_poisson(device, generator, rate):
    """Small rates invert one draw."""
    seed, offset = (8, 3) if rate < 10 else (2**40, 2**33)
    got = torch.poisson(constant(rate, device), generator=seeded(generator, seed, offset)).cpu()
    if rate < 10:
        words = reference.block(COUNT, seed, offset, 0)
        expected = stats.poisson.ppf(reference.unit(words[:, 0], words[:, 1]), rate)
    else:
        expected = reference.poisson(rate, COUNT, seed, offset)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(
    ("n", "p"),
    [(19, 0.5), (3, 0.875), (10**6, 1e-6), (20, 0.5), (45, 0.25), (50, 0.75), (10**7, 0.4)],
)
def test_binomials(device, generator, n, p):
    """Those with a small mean invert one draw."""
    count, probability = constant(n, device), constant(p, device)
    got = torch.binomial(count, probability, generator=seeded(generator, 6, 1)).cpu().numpy()
    less = min(p, 1 - p)
    if n * less < 10:
        words = reference.block(COUNT, 6, 1, 0)
        expected = stats.binom(n, less).ppf(reference.unit(words[:, 0], words[:, 1]))
    else:
        expected = reference.binomial(n, less, COUNT, 6, 1)
    np.testing.assert_array_equal(got, expected if p <= 0.5 else n - expected)


@pytest.mark.parametrize("alpha", [0.02, 1.0, 4.5, 1e6])
def test_gammas_are_those_of_the_reference(device, generator, alpha):
    got = torch._standard_gamma(constant(alpha, device), generator=seeded(generator, 7, 5))
    expected = np.maximum(reference.gamma(alpha, COUNT, 7, 5), TINY[torch.float64])
    np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dirichlet_divides_gammas_by_their_sum(device, generator, dtype):
    alpha = torch.tensor([0.5, 2.0, 3.0, 0.9], dtype=dtype, device=device).expand(5, 100, 4)
    got = torch._sample_dirichlet(alpha, generator=seeded(generator, 4))
    gammas = torch._standard_gamma(alpha.double(), generator=seeded(generator, 4)).cpu()
    expected = (gammas / gammas.sum(-1, keepdim=True)).to(dtype)
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_short_dtypes_round(device, generator, dtype):
    rate = (torch.rand(COUNT, generator=torch.Generator().manual_seed(1)) * 3000).to(dtype)
    got = torch.poisson(rate.to(device), generator=seeded(generator, 9)).cpu()
    wide = torch.poisson(rate.to(device).double(), generator=seeded(generator, 9)).cpu()
    assert got.dtype == dtype
    assert torch.equal(got, wide.to(dtype))


# ---- Distributions


@pytest.mark.parametrize("large", [1e9, 1e15])
def test_large_parameters_tend_to_normal(device, large):
    torch.manual_seed(44)
    p = 0.25
    for drawn, mean, variance in (
        (torch.poisson(constant(large, device)), large, large),
        (torch._standard_gamma(constant(large, device)), large, large),
        (
            torch.binomial(constant(large, device), constant(p, device)),
            large * p,
            large * p * (1 - p),
        ),
    ):
        assert_same_distribution((drawn - mean) / math.sqrt(variance), "norm")


# ---- What numbers depend on


@pytest.mark.parametrize("name", SAMPLERS)
def test_generator_decides(device, generator, name):
    sampler, t = SAMPLERS[name], constant(0.5, device, 1000)
    first = sampler(t, seeded(generator, 5)).cpu()
    assert generator.get_offset() == reference.BLOCKS
    second = sampler(t, generator).cpu()
    assert torch.equal(sampler(t, seeded(generator, 5)).cpu(), first)
    assert torch.equal(sampler(t, generator).cpu(), second)
    assert not torch.equal(first, second)
    assert not torch.equal(sampler(t, seeded(generator, 6)).cpu(), first)
    torch.manual_seed(5)
    assert torch.equal(sampler(t).cpu(), first)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_do_not_matter(device, generator, name, dtype):
    sampler = SAMPLERS[name]
    storage = torch.rand(130, 22, 9, dtype=dtype, device=device)
    strided = storage.permute(2, 1, 0)[1:, ::2]
    got = sampler(strided, seeded(generator, 4))
    assert got.is_contiguous()
    assert torch.equal(got.cpu(), sampler(strided.contiguous(), seeded(generator, 4)).cpu())
    spread = storage[:1, :1].expand(50, 40, 9)
    expected = sampler(spread.contiguous(), seeded(generator, 4))
    assert torch.equal(sampler(spread, seeded(generator, 4)).cpu(), expected.cpu())


@pytest.mark.parametrize("name", SAMPLERS)
def test_other_elements_do_not_matter(device, generator, name):
    sampler, t = SAMPLERS[name], torch.rand(5000, 2, device=device)
    long = sampler(t, seeded(generator, 4)).cpu()
    for n in (1, 127, 128, 129, 2048):
        assert torch.equal(sampler(t[:n], seeded(generator, 4)).cpu(), long[:n])
    other = t.clone()
    other[::2] = 0.75
    assert torch.equal(sampler(other, seeded(generator, 4)).cpu()[1::2], long[1::2])


# ---- Ends


@pytest.mark.parametrize("dtype", DTYPES)
def test_ends_of_rates(device, dtype):
    rate = torch.tensor([0.0, -0.0, 5e-324, 1e-30, math.inf], dtype=dtype, device=device)
    assert torch.poisson(rate).tolist() == [0, 0, 0, 0, math.inf]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ends_of_binomials(device, dtype):
    nan = math.nan
    cases = [
        (0, 0.5, 0), (-3, 0.5, 0), (5, 0, 0), (5, -1, 0), (5, 1, 5), (5, 2, 5), (5.5, 1, 5.5),
        (0, nan, 0), (5, nan, nan), (nan, 0, 0), (nan, 1, nan), (nan, 0.5, nan),
        (math.inf, 0.5, math.inf), (math.inf, 0.75, math.inf), (0.5, 0.25, 0), (0.5, 0.75, 0.5),
    ]  # fmt: skip
    n, p, expected = (torch.tensor(x, dtype=dtype) for x in zip(*cases, strict=True))
    got = torch.binomial(n.to(device), p.to(device)).cpu()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    known = ~(torch.isnan(n) | torch.isinf(n))  # CPU does not return from some of the others
    theirs = torch.binomial(n[known], p[known])
    torch.testing.assert_close(got[known], theirs, rtol=0, atol=0, equal_nan=True)


def test_counts_far_above_what_is_exact(device):
    count, p = torch.full((9,), 1e305, dtype=torch.float64), torch.arange(1, 10).double() / 10
    got = torch.binomial(count.to(device), p.to(device)).cpu()
    torch.testing.assert_close(got, count * p, rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gammas_are_positive(device, dtype):
    alpha = torch.tensor([0, -1, math.nan, 1e-30, 1e-5], dtype=dtype, device=device)
    drawn = torch._standard_gamma(alpha.expand(1000, 5)).cpu()
    assert (drawn[:, :4] == TINY[dtype]).all()
    assert (drawn >= TINY[dtype]).all()
    assert torch._standard_gamma(alpha.new_tensor(math.inf)).item() == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_shares_stay_between_0_and_1(device, dtype):
    one = torch.nextafter(torch.ones((), dtype=dtype), torch.zeros((), dtype=dtype)).item()

    def draw(*alpha: float) -> torch.Tensor:
        row = torch.tensor(alpha, dtype=dtype, device=device)
        return torch._sample_dirichlet(row.expand(2000, len(alpha))).cpu()

    assert (draw(2.0) == one).all()
    assert torch._sample_dirichlet(torch.tensor(2.0, dtype=dtype, device=device)).item() == one
    assert (draw(0, 0) == 0.5).all()
    assert (draw(0, 1) == torch.tensor([TINY[dtype], one], dtype=dtype)).all()
    assert torch.isfinite(draw(math.nan, 1, 1)).all()
    # Gamma variables that underflow still have a ratio: one of the parts takes nearly all.
    torch.manual_seed(46)
    first = draw(1e-5, 1e-5)[:, 0]
    assert ((first < 1e-6) | (first > 1 - 1e-6)).all()
    assert first.min() >= TINY[dtype]
    assert first.max() <= one
    assert abs((first > 0.5).double().mean().item() - 0.5) < 0.05


def test_binomials_of_other_sizes(device, generator):
    n, p = torch.full((3, 1), 40.0, device=device), torch.tensor([0.25, 0.75], device=device)
    full = torch.binomial(
        n.expand(3, 2).contiguous(), p.expand(3, 2).contiguous(), seeded(generator, 1)
    )
    for count in (n, n.expand(3, 2)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="An output with one or more elements")
            got = torch.binomial(count, p, seeded(generator, 1))
        assert torch.equal(got.cpu(), full.cpu())


# ---- Gradients


def test_gradients_of_gammas(device):
    alpha = torch.tensor([0.5, 2.0, 30.0], device=device, requires_grad=True)
    torch.manual_seed(48)
    drawn = torch.distributions.Gamma(alpha, torch.ones_like(alpha)).rsample((2000,))
    drawn.sum().backward()
    theirs = alpha.detach().cpu().expand(2000, 3)
    expected = torch._standard_gamma_grad(theirs, drawn.detach().cpu()).sum(0)
    torch.testing.assert_close(alpha.grad.cpu(), expected, rtol=1e-4, atol=1e-4)
