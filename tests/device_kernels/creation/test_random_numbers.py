"""Random numbers by device kernels: the same as on the host, from the same seed.

tests/random compares the host's with references.
"""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_raises_as_on_cpu
from tests.random.random_draws import FLOATING
from torch_outboard import fallback, placement


def same(function: Callable[[], torch.Tensor | tuple], exact: bool = True) -> torch.Tensor:
    """The host's numbers; asserts that the device draws the same, with the same strides, and that
    the numbers drawn afterwards are the same.
    """
    results = []
    for name in ("host", "device"):
        with placement.use(name), fallback.report() as report:
            torch.manual_seed(5)
            value = function()
            leaves = list(value) if isinstance(value, tuple) else [value]
            leaves.append(torch.empty(3, device=leaves[0].device).uniform_())
        results.append([leaf.cpu() for leaf in leaves])
    assert {row.placement for row in report.rows} == {"device"}, report.rows
    near = {"rtol": 0, "atol": 0} if exact else {}
    for theirs, ours in zip(*results, strict=True):
        assert theirs.stride() == ours.stride()
        assert_close(ours, theirs, equal_nan=True, **near)
    return results[0][0]


COUNT = 1003
DISTRIBUTIONS = (
    lambda t: t.normal_(1, 2), lambda t: t.log_normal_(), lambda t: t.exponential_(2.0),
    lambda t: t.cauchy_(), lambda t: t.geometric_(0.3),
)  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATING, torch.complex64], ids=str)
def test_continuous(device, dtype):
    same(lambda: torch.empty(COUNT, device=device, dtype=dtype).uniform_())
    fills = [lambda t: t.uniform_(-1.5, 2)]
    fills += DISTRIBUTIONS if dtype in REJECTION_DTYPES else []
    fills += [torch.Tensor.normal_] if dtype.is_complex else []
    for fill in fills:
        same(lambda fill=fill: fill(torch.empty(COUNT, device=device, dtype=dtype)), exact=False)


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32], ids=str
)
def test_integers(device, dtype):
    same(lambda: torch.empty(COUNT, device=device, dtype=dtype).random_())
    if dtype == torch.int64:
        same(lambda: torch.randint(-(2**40), 2**41, (COUNT,), device=device))
    if dtype != torch.bool:
        same(lambda: torch.empty(COUNT, device=device, dtype=dtype).random_(3, 100))


def test_bernoulli(device):
    probabilities = torch.rand(COUNT, device=device)
    same(lambda: torch.empty(COUNT, device=device).bernoulli_(0.3))
    same(lambda: torch.bernoulli(probabilities, out=torch.empty(0, device=device)))
    same(lambda: torch.empty(COUNT, device=device, dtype=torch.int32).bernoulli_(probabilities))


def test_dropout(device):
    values = torch.randn(7, 9, 11, device=device)
    same(lambda: torch.native_dropout(values.transpose(0, 2), 0.3, True))

    def gradient() -> torch.Tensor:
        leaf = values.clone().requires_grad_()
        F.dropout(leaf, 0.3).backward(values)
        return leaf.grad

    same(gradient)


def test_permutations(device):
    for count in (1, 2, 5, 64, 1000):
        same(lambda count=count: torch.randperm(count, device=device))


def test_random_slopes(device):
    values = torch.randn(9, 11, device=device)

    def slopes() -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.empty(11, 9, device=device).t()
        return torch.ops.aten.rrelu_with_noise(values, noise, 0.1, 0.3, True), noise

    same(slopes)
    with fallback.report() as report:
        out = F.rrelu(values, 0.1, 0.3)
    assert_close(out, F.leaky_relu(values, 0.2))
    assert {row.placement for row in report.rows} == {"device"}


def test_layouts_and_generators(device):
    # Numbers belong to indices in logical order.
    same(lambda: torch.empty(20, 30, device=device).t()[:, ::2].uniform_())
    generator = torch.Generator(device)
    same(lambda: torch.rand(5, device=device, generator=generator.manual_seed(3)))
    rate = spread(device, torch.float32, 50)[3:].reshape(-1, 20)
    for strided in (rate.T, rate[:, ::3], rate[:1].expand(9, 20), rate[:0]):
        same(lambda strided=strided: torch.poisson(strided, generator.manual_seed(3)))


def test_normal_with_parameters_in_tensors(device):
    mean = torch.randn(3, 1, 7, device=device)
    std = torch.rand(5, 1, device=device)
    same(lambda: torch.normal(mean, 0.5), exact=False)
    same(lambda: torch.normal(0.25, std), exact=False)
    out = torch.empty(3, 7, 5, dtype=torch.float64, device=device)
    same(lambda: torch.normal(mean.double().mT, std.T, out=out), exact=False)
    with pytest.raises(RuntimeError, match="std >= 0"):
        torch.normal(mean, -std)


def test_categories(device):
    weights = torch.rand(6, 40, device=device)
    weights[..., 3] = 0
    same(lambda: torch.multinomial(weights[1], 1))
    same(lambda: torch.multinomial(weights, 30))
    same(lambda: torch.multinomial(weights, 500, replacement=True))
    for wrong in (-weights, weights / 0, weights * 0):
        with pytest.raises(RuntimeError, match=r"invalid multinomial|probability tensor"):
            torch.multinomial(wrong, 2)


# ---- by rejection


MANY = 20_003
REJECTION_DTYPES = (torch.float32, torch.float64)


def spread(device: torch.device, dtype: torch.dtype, largest: float) -> torch.Tensor:
    """Numbers of all sizes up to the largest, and the ends of what is allowed."""
    numbers = torch.rand(MANY, generator=torch.Generator().manual_seed(3)).pow(6) * largest
    numbers[:3] = torch.tensor([0.0, 1e-30, math.inf])
    return numbers.to(device, dtype)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_poisson(device, dtype):
    drawn = same(lambda: torch.poisson(spread(device, dtype, 5000)))
    assert drawn[0] == 0
    assert drawn.unique().numel() > 250


@pytest.mark.parametrize("dtype", REJECTION_DTYPES, ids=str)
def test_binomial(device, dtype):
    count, p = spread(device, dtype, 3000), torch.rand(MANY, device=device, dtype=dtype)
    p[5:9] = torch.tensor([0, 1, 0.5, math.nan])
    drawn = same(lambda: torch.binomial(count, p))
    assert drawn[8].isnan() or count[8] == 0
    assert drawn.unique().numel() > 250


@pytest.mark.parametrize("dtype", REJECTION_DTYPES, ids=str)
def test_gamma(device, dtype):
    alpha = spread(device, dtype, 100)
    alpha[5:7] = torch.tensor([-1, math.nan])
    drawn = same(lambda: torch._standard_gamma(alpha))
    assert (drawn[5:7] == torch.finfo(dtype).tiny).all()
    assert drawn.unique().numel() > 1000


@pytest.mark.parametrize("dtype", REJECTION_DTYPES, ids=str)
def test_dirichlet(device, dtype):
    alpha = spread(device, dtype, 100)[3:][: MANY // 7 * 7 - 7].reshape(-1, 7)
    shares = same(lambda: torch._sample_dirichlet(alpha))
    torch.testing.assert_close(shares.sum(-1), torch.ones(len(alpha), dtype=dtype))
    same(lambda: torch._sample_dirichlet(alpha.T))  # long rows
    same(lambda: torch._sample_dirichlet(alpha.new_zeros(3, 4)))
    same(lambda: torch._sample_dirichlet(alpha[0, 0]))


def test_dtypes_without_kernel_raise_as_on_cpu(device):
    for sampler in (torch._standard_gamma, torch._sample_dirichlet):
        assert_raises_as_on_cpu(device, sampler, torch.ones(3, dtype=torch.float16))
