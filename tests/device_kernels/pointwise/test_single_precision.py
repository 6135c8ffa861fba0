"""Elementary functions in single precision: their errors, against double precision on CPU."""

import math

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback

SMALLEST_NORMAL = 2.0**-126
ENDS = [
    0.0, -0.0, 1.0, -1.0, 2.5, 3.0, -2.0, 0.5, 88.7, 88.73, 89.0, -88.0, -104.0, 99999.0, 1e5,
    2.0**-24, 2.0**-24 - 1, 1e-20, 1e-40, -1e-40, 1.7e38, 3.4e38, -3e38,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


def arguments(seed: int) -> torch.Tensor:
    """Numbers of all sizes, among them any bits."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(20_000, generator=generator)
    bits = torch.randint(-(2**31), 2**31, (20_000,), generator=generator).to(torch.int32)
    return torch.cat([torch.tensor(ENDS), normal, normal * 30, bits.view(torch.float32)])


def check(device, operator, *values, units):
    with fallback.report() as report:
        found = operator(*(value.to(device) for value in values)).cpu()
    assert {row.placement for row in report.rows if row.op != "aten::_copy_from"} == {"device"}
    exact, expected = operator(*(value.double() for value in values)), operator(*values)
    # NaN, infinities and zeros with their signs.
    known = ~(torch.isfinite(expected) & (expected != 0))
    assert_close(found[known], expected[known], rtol=0, atol=0, equal_nan=True)
    assert_close(torch.signbit(found[expected == 0]), torch.signbit(expected[expected == 0]))
    rounded = exact.float()
    checked = torch.isfinite(rounded) & ~known & (exact.abs() >= SMALLEST_NORMAL)
    spacing = torch.nextafter(rounded.abs(), torch.tensor(math.inf)).double() - rounded.abs()
    error = ((found.double() - exact).abs() / spacing)[checked]
    assert error.numel() > 10_000
    assert error.max() <= units


@pytest.mark.parametrize("name", ["erf", "expm1", "log1p", "sin", "cos"])
def test_functions_of_one_argument(device, name):
    check(device, getattr(torch, name), arguments(0), units=2)


# Of powers 3.2 is the most that 25 orders of `b` showed; OpenCL allows 16, CUDA 4.
@pytest.mark.parametrize(("name", "units"), [("pow", 4), ("hypot", 2)])
def test_functions_of_two_arguments(device, name, units):
    order = torch.randperm(len(arguments(2)), generator=torch.Generator().manual_seed(9))
    check(device, getattr(torch, name), arguments(1), arguments(2)[order], units=units)


def test_remainders_are_exact(device):
    # CPU gives NaN where the quotient overflows.
    a = torch.cat([torch.tensor([1.0, -6.0, 6.0, 0.0, -0.0]), arguments(3)])
    b = torch.cat([torch.tensor([math.inf, 3.0, -3.0, 1.0, 1.0]), arguments(4)])
    served = ~((a / b).isinf() & (b != 0))
    check(device, torch.fmod, a[served], b[served], units=0)


def test_results_do_not_depend_on_neighbours(device):
    usual = torch.randn(256)
    rare = usual.clone()
    rare[::5] = 1e8
    for operator in (torch.sin, torch.cos, lambda x: torch.fmod(x, torch.tensor(1e-3))):
        alone, beside = (operator(x.to(device)).cpu() for x in (usual, rare))
        keep = torch.arange(256) % 5 != 0
        assert_close(alone[keep], beside[keep], rtol=0, atol=0)
