"""Elementary functions of complex values by device kernels, against CPU."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.on_device import compare

INVERSES = [torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh]
# CPU's acos of complex128 has wrong signs of zeros.
SIGNED = [torch.asin, torch.atan, torch.asinh, torch.acosh, torch.atanh, torch.sqrt]
EXPONENTIAL = [torch.exp, torch.exp2, torch.expm1, torch.log1p, torch.sqrt]

# Of both parts: ends, the neighbourhood of branch points, and what squares leave no number of.
PARTS = [
    0.0, 0.5, 1.0, 2.0, 1e-30, 1e-12, 1e-5, 0.999999, 1.000001, 1.0001, 1e5, 3e18, 1e30, 3e38,
]  # fmt: skip
FINITE = [sign * part for part in PARTS for sign in (1.0, -1.0)]
ENDS = [0.0, -0.0, 0.5, -2.0, math.inf, -math.inf, math.nan]
HUGE = [0.0, -0.0, math.inf, -math.inf, 1.0, -1.0, 100.0, -100.0, 1e4, 1e20, 3e38]


def plane(parts: list[float], dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.tensor([complex(x, y) for x, y in itertools.product(parts, parts)], dtype=dtype)


@pytest.mark.parametrize("view", [torch.Tensor.conj, lambda z: z.conj().mT, lambda z: z.mT])
def test_conjugates_of_views(device, view):
    z = torch.randn(3, 4, dtype=torch.complex64)
    compare(device, lambda z: torch.conj_physical(view(z)), z)


@pytest.mark.parametrize("function", INVERSES)
def test_each_part_of_inverse_functions_is_precise(device, function):
    """The smaller part, too, whatever the larger one is."""
    z = plane(FINITE)
    exact = function(z.to(torch.complex128))
    if function is torch.acos:
        # CPU subtracts from pi / 2, which leaves nothing of small real parts.
        exact.real.copy_(torch.acosh(z.to(torch.complex128)).imag.abs())
    result = function(z.to(device)).cpu()
    for ours, known in ((result.real, exact.real), (result.imag, exact.imag)):
        normal = known.abs() > 1.2e-38
        assert_close(ours[normal].double(), known[normal], rtol=3e-7, atol=0)


@pytest.mark.parametrize("function", SIGNED)
def test_branch_cuts_and_signs_of_zeros(device, function):
    z = plane([0.0, -0.0, 0.5, -0.5, 2.0, -2.0])
    result, expected = function(z.to(device)).cpu(), function(z)
    assert_close(result, expected)
    for ours, known in ((result.real, expected.real), (result.imag, expected.imag)):
        assert torch.equal(torch.signbit(ours), torch.signbit(known))


def test_the_arc_cosine_on_both_sides_of_its_cuts(device):
    z = torch.tensor([complex(2, 0.0), complex(2, -0.0), complex(-2, 0.0), complex(-2, -0.0)])
    length = math.acosh(2)
    expected = [complex(0, -length), complex(0, length)]
    expected += [complex(math.pi, -length), complex(math.pi, length)]
    assert_close(torch.acos(z.to(device)).cpu(), torch.tensor(expected))


@pytest.mark.parametrize("function", [*INVERSES, *EXPONENTIAL])
def test_infinities_and_nan(device, function):
    compare(device, function, plane(ENDS))


@pytest.mark.parametrize("name", ["tanh", "sin", "cos", "sinh", "cosh", "log", "log1p", "tan"])
def test_huge_parts(device, name):
    x, function = plane(HUGE), getattr(torch, name)
    expected, actual = (torch.view_as_real(t) for t in (function(x), function(x.to(device)).cpu()))
    # NaN in one part or in both differs between C libraries.
    defined = ~expected.isnan().any(-1)
    assert_close(actual[defined], expected[defined], rtol=1e-4, atol=1e-5)


def test_exponentials_that_only_one_factor_makes_finite(device):
    angle = math.pi / 2 - 1e-4
    z = torch.tensor([complex(92, angle), complex(92, -angle), complex(89, 0.8)])
    compare(device, lambda z: [z.exp().real, z.exp().imag], z)


def test_log1p_where_its_argument_cancels(device):
    y = torch.logspace(-6, -0.5, 50, dtype=torch.float64)
    z = torch.complex(torch.sqrt(1 - y * y) - 1, y).to(torch.complex64)
    wide = z.to(torch.complex128)
    x, y = wide.real, wide.imag
    known = torch.log1p(2 * x + (x * x + y * y)) / 2
    assert_close(z.to(device).log1p().cpu().real.double(), known, rtol=1e-6, atol=1e-15)


SPECIAL = [
    0, 1, -1, 2, -2, 1j, -1j, 2 - 1j, -2 + 1e-3j, 0.5, -0.5, math.inf, -math.inf,
    complex(-2, -0.0), complex(0, math.inf),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("function", [torch.pow, torch.logaddexp])
def test_special_values_of_two_operands(device, function, dtype):
    a, b = torch.meshgrid(*[torch.tensor(SPECIAL, dtype=dtype)] * 2, indexing="ij")
    compare(device, function, a, b)


def test_powers_of_negative_bases(device):
    def work(x):
        return torch.logspace(-3, 4.3, 9, base=-2, dtype=torch.complex64, device=x.device)

    compare(device, work, torch.empty(0), support=frozenset())


def test_large_powers_are_precise(device):
    z, w = 5 * torch.randn(2, 500, dtype=torch.complex64)
    known = torch.pow(z.to(torch.complex128), w.to(torch.complex128))
    fits = (known.abs() < 1e38) & (known.abs() > 1e-36)
    result = torch.pow(z.to(device), w.to(device)).cpu().to(torch.complex128)
    assert ((result - known).abs()[fits] <= 3e-7 * known.abs()[fits]).all()
