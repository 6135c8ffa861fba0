"""Random numbers by device kernels: those of the host way, from the same seed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.creation.both_ways import close, same
from torch_outboard import fallback

COUNT = 1003


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64],
    ids=str,
)
def test_uniform(device, dtype):
    same(lambda: torch.empty(COUNT, device=device, dtype=dtype).uniform_())
    close(lambda: torch.empty(COUNT, device=device, dtype=dtype).uniform_(-1.5, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("normal_", (1, 2)),
        ("log_normal_", ()),
        ("exponential_", (2.0,)),
        ("cauchy_", ()),
        ("geometric_", (0.3,)),
    ],
)
def test_distributions(device, dtype, name, arguments):
    close(lambda: getattr(torch.empty(COUNT, device=device, dtype=dtype), name)(*arguments))


def test_complex_normal(device):
    close(lambda: torch.randn(COUNT, dtype=torch.complex64, device=device))


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32], ids=str
)
def test_integers(device, dtype):
    same(lambda: torch.empty(COUNT, device=device, dtype=dtype).random_())
    if dtype != torch.bool:
        same(lambda: torch.empty(COUNT, device=device, dtype=dtype).random_(3, 100))


def test_wide_ranges_of_integers(device):
    same(lambda: torch.randint(-(2**40), 2**41, (COUNT,), device=device))
    same(lambda: torch.randint(-50, 100, (COUNT,), device=device))


def test_bernoulli(device):
    probabilities = torch.rand(COUNT, device=device)
    same(lambda: torch.empty(COUNT, device=device).bernoulli_(0.3))
    same(lambda: torch.bernoulli(probabilities))
    same(lambda: torch.bernoulli(probabilities, out=torch.empty(0, device=device)))
    same(lambda: torch.empty(COUNT, device=device, dtype=torch.int32).bernoulli_(probabilities))


def test_dropout(device):
    values = torch.randn(7, 9, 11, device=device)
    same(lambda: torch.native_dropout(values, 0.3, True))
    same(lambda: torch.dropout(values.transpose(0, 2), 0.3, True))

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
    assert {row.way for row in report.rows} == {"device"}


def test_layouts_and_generators(device):
    # Numbers belong to places in logical order.
    same(lambda: torch.empty(20, 30, device=device).t().uniform_())
    same(lambda: torch.empty(20, 30, device=device)[:, ::2].uniform_())
    generator = torch.Generator(device)
    same(lambda: torch.rand(5, device=device, generator=generator.manual_seed(3)))


def test_normal_with_parameters_in_tensors(device):
    mean = torch.randn(3, 1, 7, device=device)
    std = torch.rand(5, 1, device=device)
    close(lambda: torch.normal(mean, 0.5))
    close(lambda: torch.normal(0.25, std))
    close(lambda: torch.normal(mean, std))
    close(lambda: torch.normal(mean.double().mT, std.T, out=mean.new_empty(3, 7, 5).double()))
    with pytest.raises(RuntimeError, match="std >= 0"):
        torch.normal(mean, -std)


@pytest.mark.parametrize("sizes", [(40,), (6, 40)])
def test_categories(device, sizes):
    weights = torch.rand(sizes, device=device)
    weights[..., 3] = 0
    same(lambda: torch.multinomial(weights, 1))
    same(lambda: torch.multinomial(weights, 30))
    same(lambda: torch.multinomial(weights, 500, replacement=True))
    for wrong in (-weights, weights / 0, weights * 0):
        with pytest.raises(RuntimeError, match=r"invalid multinomial|probability tensor"):
            torch.multinomial(wrong, 2)
