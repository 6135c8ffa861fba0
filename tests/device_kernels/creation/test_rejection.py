"""Poisson, binomial, gamma and Dirichlet variables by device kernels: those of the host way, bit by
bit, which tests/random/test_rejection.py compares with a reference."""

from __future__ import annotations

import math

import pytest
import torch

import torch_outboard
from tests.device_kernels.creation.both_ways import same
from tests.support import run_python
from torch_outboard import fallback

COUNT = 20_003
DTYPES = (torch.float32, torch.float64)


def spread(device: torch.device, dtype: torch.dtype, largest: float) -> torch.Tensor:
    """Numbers of all sizes up to the largest, and the ends of what is allowed."""
    numbers = torch.rand(COUNT, generator=torch.Generator().manual_seed(3)).pow(6) * largest
    numbers[:3] = torch.tensor([0.0, 1e-30, math.inf])
    return numbers.to(device, dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.float64, torch.bfloat16], ids=str
)
def test_poisson(device, dtype):
    drawn = same(lambda: torch.poisson(spread(device, dtype, 5000)))
    assert drawn[0] == 0
    assert drawn.unique().numel() > 250


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binomial(device, dtype):
    count, p = spread(device, dtype, 3000), torch.rand(COUNT, device=device, dtype=dtype)
    p[5:9] = torch.tensor([0, 1, 0.5, math.nan])
    drawn = same(lambda: torch.binomial(count, p))
    assert drawn[8].isnan() or count[8] == 0
    assert drawn.unique().numel() > 250


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gamma(device, dtype):
    alpha = spread(device, dtype, 100)
    alpha[5:7] = torch.tensor([-1, math.nan])
    drawn = same(lambda: torch._standard_gamma(alpha))
    assert (drawn[5:7] == torch.finfo(dtype).tiny).all()
    assert drawn.unique().numel() > 1000


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dirichlet(device, dtype):
    alpha = spread(device, dtype, 100)[3:][: COUNT // 7 * 7 - 7].reshape(-1, 7)
    shares = same(lambda: torch._sample_dirichlet(alpha))
    torch.testing.assert_close(shares.sum(-1), torch.ones(len(alpha), dtype=dtype))
    same(lambda: torch._sample_dirichlet(alpha.T))  # long rows
    same(lambda: torch._sample_dirichlet(alpha.new_zeros(3, 4)))
    same(lambda: torch._sample_dirichlet(alpha[0, 0]))


def test_layouts_and_generators(device):
    generator = torch.Generator(device)
    rate = spread(device, torch.float32, 50)[3:].reshape(-1, 20)
    for strided in (rate.T, rate[:, ::3], rate[:1].expand(9, 20), rate[:0]):
        same(lambda strided=strided: torch.poisson(strided, generator.manual_seed(3)))


def test_invalid_rates_are_raised_by_the_next_wait(device):
    for wrong in (-1.0, math.nan):
        with pytest.raises(RuntimeError, match="invalid Poisson rate"):  # noqa: PT012
            torch.poisson(torch.tensor([1.0, wrong], device=device))
            torch.accelerator.synchronize()


def test_dtypes_without_kernel_raise_as_on_cpu(device):
    for sampler in (torch._standard_gamma, torch._sample_dirichlet):
        with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
            sampler(torch.ones(3, device=device, dtype=torch.float16))


def test_distributions_of_torch(device):
    d = torch.distributions
    a, b = torch.tensor([0.5, 4.0], device=device), torch.tensor([3.0, 20.0], device=device)
    for distribution in (
        d.Poisson(b), d.Binomial(b, a / 5), d.Gamma(a, b), d.Beta(a, b), d.Dirichlet(a), d.Chi2(b),
        d.StudentT(b),
    ):  # fmt: skip
        with fallback.report() as report:
            drawn = distribution.sample((3000,))
        assert {row.way for row in report.rows} == {"device"}, report.rows
        error = (drawn.mean(0) - distribution.mean).abs() / distribution.stddev
        assert error.max().item() < 5 / math.sqrt(3000)


@pytest.mark.slow
@pytest.mark.skipif(torch_outboard.device_name() != "ocl", reason="a setting of the driver `ocl`")
def test_without_float64():
    """A device without it leaves them to the host, with the same numbers."""
    program = """
        import torch, torch_outboard
        from torch_outboard import fallback, ways
        device = torch.device(torch_outboard.device_name(), 0)
        rate = torch.full((500,), 25.0, device=device)
        torch.manual_seed(1)
        with ways.way("device"), fallback.report() as report:
            drawn = torch.poisson(rate)
        print({row.op: row.way for row in report.rows}["aten::poisson"], drawn.sum().item())
    """
    way, total = run_python(program).split()
    masked, masked_total = run_python(program, OUTBOARD_OCL_MASK="float64").split()
    assert way == "device"
    assert masked != "device"
    assert total == masked_total
