"""Special functions by device kernels, against CPU and against what is known of them."""

import math

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.on_device import compare

ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, 8.0, -2.0, -4.0, 30.0, math.inf, -math.inf, math.nan]


def grid(dtype: torch.dtype) -> torch.Tensor:
    spread = torch.linspace(-15, 15, 601, dtype=torch.float64)
    unit = torch.linspace(0, 1, 101, dtype=torch.float64)
    small = torch.logspace(-30, 3, 100, dtype=torch.float64)
    return torch.cat([spread, unit, small, torch.tensor(ENDS, dtype=torch.float64)]).to(dtype)


SINGLE = """i0 i1 i1e modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 erfcx
ndtri log_ndtr"""
DOUBLE = "modified_bessel_k1 erfcx ndtri"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in SINGLE.split()]
    + [(name, torch.float64) for name in DOUBLE.split()],
)
def test_functions_of_one_argument(device, name, dtype):
    near = {"rtol": 1e-13, "atol": 0} if dtype == torch.float64 else {}
    compare(device, getattr(torch.special, name), grid(dtype), **near)


# From mpmath, with 20 digits; CPU's values are off by 1e-7 and more.
@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("bessel_j0", 5.52, -2.6578369480081346e-05),
        ("bessel_j1", 7.014, -0.00047623826587728276),
        ("bessel_y0", 7.086, -1.5323129979224548e-05),
        ("bessel_y1", 5.43, -0.0001085443836487951),
        ("airy_ai", -2.34, -0.0013271024154458498),
    ],
)
def test_functions_near_their_zeros(device, name, x, value):
    function = getattr(torch.special, name)
    result = function(torch.tensor([x], dtype=torch.float64, device=device))
    assert_close(result.item(), value, rtol=1e-10, atol=1e-16)
    compare(device, function, grid(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_digamma_near_its_poles(device, dtype):
    distances = torch.logspace(-5, -1, 50, dtype=torch.float64)
    poles = -torch.arange(1.0, 9.0, dtype=torch.float64)[:, None]
    compare(device, torch.digamma, torch.cat([poles - distances, poles + distances]).to(dtype))


def test_polygamma(device):
    x = grid(torch.float32)
    x = x[(x > -20) & (x != torch.trunc(x)) | (x >= 0)]
    for n in (1, 2):
        compare(device, torch.polygamma, n, x)


def test_zeta(device):
    x = torch.tensor([1.0, 0.5, 1.5, 2, 3, 9, 11, 40, math.inf, math.nan])
    q = torch.tensor([*ENDS, 0.1, 0.5, 3.5, 12.25, 100.0, -0.5, -3.5, -30.5, -40.25])
    compare(device, torch.special.zeta, x[:, None], q)


def test_incomplete_gamma_functions(device):
    a = torch.cat([torch.logspace(-3, 4, 40), torch.tensor([0.0, 1.0, math.inf, math.nan, -1.0])])
    ratio = torch.tensor([0.0, 0.1, 0.7, 0.95, 1.0, 1.02, 1.3, 1.5, 4.0, math.inf])
    x = a[:, None] * ratio
    compare(device, torch.igamma, a[:, None].expand_as(x), x)
    compare(
        device, torch.igammac, a[:, None].expand_as(x).double(), x.double(), rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize(
    "name",
    [
        "chebyshev_polynomial_u", "shifted_chebyshev_polynomial_w", "hermite_polynomial_he",
        "legendre_polynomial_p",
    ],
)  # fmt: skip
def test_polynomials(device, name):
    x = torch.cat([torch.linspace(-1.5, 1.5, 61, dtype=torch.float64), torch.tensor([0.5, 3.0])])
    degree = torch.tensor([-2.0, -0.5, 0, 1, 2, 3.7, 6, 7, 9, 12, 20, math.nan])
    compare(device, getattr(torch.special, name), x[:, None].double(), degree.double())
    compare(device, getattr(torch.special, name), x.double(), 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_ldexp(device, dtype):
    """Its powers of two are out of the dtype's range where results are not."""
    x = torch.tensor([1.0, -2.0, 2.0**-10, 0.3, math.inf, math.nan, 0.0, 3e4]).to(dtype)
    for powers in ([-25, 20, 1, -3, 3, 100, 127, -128], [0, -140, 150, 300, -300, 2000, 5, -16]):
        power = torch.tensor(powers)
        compare(device, torch.ldexp, x.unsqueeze(1), power, rtol=0, atol=0)
        compare(device, lambda x, power: x.clone().ldexp_(power), x, power, rtol=0, atol=0)
    compare(device, torch.ldexp, x, torch.linspace(-5, 5, 8).to(dtype))
    compare(device, torch.ldexp, torch.arange(8), torch.arange(-4, 4))
