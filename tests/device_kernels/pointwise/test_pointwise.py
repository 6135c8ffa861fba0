"""Pointwise operators against CPU: dtypes, layouts, sizes, forms and types of results.

OpInfo's samples go through every definition (the scoreboard); here are the corners that they
do not reach.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from tests.device_kernels.on_device import SUPPORT, compare, difference

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
NAN, INF = float("nan"), float("inf")


def values(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point and not dtype.is_complex:
        low = 0 if dtype == torch.uint8 else -9
        return torch.randint(low, 10, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def check(device: torch.device, function: Callable, *arguments: object) -> None:
    """Values and strides, by device kernels alone."""
    compare(device, function, *arguments, support=frozenset(), check_stride=True)


# ---- dtypes and promotion


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.float32, torch.float16), (torch.float16, torch.bfloat16), (torch.int32, torch.int64),
        (torch.int64, torch.float32), (torch.bool, torch.uint8), (torch.uint8, torch.int8),
        (torch.float64, torch.float32), (torch.float32, torch.complex64), (torch.bool, torch.bool),
    ],
)  # fmt: skip
def test_mixed_dtypes(device, left, right):
    a, b = values(left, 5, 7), values(right, 5, 7, seed=1)
    for function in (torch.mul, torch.eq):
        check(device, function, a, b)
    check(device, torch.where, values(torch.bool, 5, 1), a, b)


# First of integers, whose kernels for 1 and for 1.5 differ.
@pytest.mark.parametrize("dtype", [torch.int64, *FLOATS, torch.uint8, torch.bool, torch.complex64])
def test_scalars_promote_as_on_cpu(device, dtype):
    a = values(dtype, 11)
    for scalar in (2, 1.5, True):
        check(device, torch.mul, a, scalar)
        check(device, torch.mul, a, torch.tensor(scalar))  # on the device
        check(device, torch.eq, a, scalar)


# ---- sizes and layouts


SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 4095, 4097, 100_003)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_integers_are_rounded_to_half_precision(device, dtype):
    integers = torch.tensor([70000, 2049, -257, 3])
    halves = torch.tensor([0.5, 1, 2, 3], dtype=dtype)
    for function in (torch.add, torch.mul, torch.eq, torch.maximum, torch.copysign):
        compare(device, function, integers, halves, rtol=0, atol=0)
        compare(device, function, halves, integers.to(torch.int32), rtol=0, atol=0)
    compare(device, lambda i, h: h.clone().mul_(i), integers, halves, rtol=0, atol=0)


def test_results_are_rounded_before_a_wider_output(device):
    def add(x):
        return torch.add(x, x, out=torch.empty(0, dtype=torch.float64, device=x.device))

    halves = torch.tensor([33000.0, 0.1], dtype=torch.float16)
    compare(device, add, halves, support=SUPPORT | {"aten::add.out"}, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float64])
def test_sizes(device, dtype):
    for size in SIZES:
        check(device, torch.add, values(dtype, size), values(dtype, size, seed=1))


def layouts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Tensors of x's shape (4, 6, 10) with the values of x or a part of them broadcast."""
    wide = torch.zeros(4, 6, 20, dtype=x.dtype)
    wide[..., ::2] = x
    return {
        "contiguous": x,
        "transposed": x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        "sliced": wide[..., ::2],
        "offset": torch.cat([torch.ones(3, dtype=x.dtype), x.flatten()])[3:].view(4, 6, 10),
        "row": x[0, 0].expand(4, 6, 10),
        "column": x[:, :1, :1].expand(4, 6, 10),
        "middle": x[:, 0:1, :],
        "scalar": x[1, 2, 3],
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_layouts(device, dtype):
    left = layouts(values(dtype, 4, 6, 10))
    right = layouts(values(dtype, 4, 6, 10, seed=1))
    for a, b in itertools.product(left.values(), right.values()):
        if a.dim() == b.dim() == 0:
            continue
        check(device, torch.mul, a, b)


def test_many_dimensions(device):
    """More than 12 are declined, and the result is still right."""
    for dimensions in (12, 14):
        x = values(torch.float32, *([2] * dimensions)).permute(*reversed(range(dimensions)))
        y = values(torch.float32, *([2] * dimensions))
        assert difference(device, torch.add, x, y) is None


def test_results_of_another_dtype_and_layout(device):
    strided = torch.zeros(33, 3, dtype=torch.float64).t()
    operands = values(torch.float32, 3, 33), values(torch.float32, 3, 33, seed=1), strided
    check(device, lambda x, y, out: torch.mul(x, y, out=out), *operands)


# ---- values


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e30, -1e30, 3.0, NAN, INF, -INF]


@pytest.mark.parametrize(
    "function",
    [
        torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.fmod, torch.remainder,
        torch.floor_divide, torch.copysign, torch.atan2, torch.xlogy, torch.logaddexp,
        torch.heaviside, torch.true_divide, torch.mul, torch.pow, torch.gt, torch.ne,
        torch.logical_and, torch.logical_xor,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_values_of_two_operands(device, function, dtype):
    a, b = (
        t.flatten()
        for t in torch.meshgrid(*[torch.tensor(SPECIAL, dtype=dtype)] * 2, indexing="ij")
    )
    check(device, function, a, b)


@pytest.mark.parametrize(
    "function",
    [
        torch.round, torch.sign, torch.signbit, torch.relu, torch.abs, torch.neg, torch.isnan,
        torch.isposinf, torch.logical_not, torch.nan_to_num, torch.exp, torch.log, torch.sqrt,
        torch.sigmoid, torch.tanh, torch.tan, torch.angle, torch.trunc, torch.special.entr,
        torch.erf, lambda x: torch.clamp(x, -1, 1), lambda x: torch.clamp(x, min=0), torch.floor,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_of_one_operand(device, function, dtype):
    x = torch.tensor([*SPECIAL, 1e-40, 30.0, -1e4], dtype=torch.float64).to(dtype)
    check(device, function, x)
    expected = function(x)
    if expected.is_floating_point():
        got = torch.signbit(function(x.to(device)).cpu())
        assert torch.equal(got[~expected.isnan()], torch.signbit(expected)[~expected.isnan()])


@pytest.mark.parametrize(
    "function",
    [
        functional.elu, functional.hardshrink, functional.hardswish, functional.hardtanh,
        functional.mish, functional.softshrink, torch.tanh,
    ],
)  # fmt: skip
def test_gradients_at_special_values(device, function):
    # Whole vectors: of NaN CPU's kernels give something else in the rest of one.
    x = torch.tensor([*SPECIAL, 1e-40, 30.0, -1e4] * 32, requires_grad=True)
    run = lambda x: torch.autograd.grad(function(x), x, torch.ones_like(x))  # noqa: E731
    compare(device, run, x, rtol=1e-4, atol=1e-5)


def test_gelu_of_infinity_is_infinite(device):
    x = torch.tensor([INF] * 33 + [3e38], device=device)
    assert_close(functional.gelu(x), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_corners(device, dtype):
    info = torch.iinfo(dtype)
    edge = torch.tensor(
        [info.min, info.min + 1, -1 if info.min else 1, 0, 1, 2, 7, info.max], dtype=dtype
    )
    divisors = edge[edge != 0]
    a, b = (t.flatten() for t in torch.meshgrid(edge, divisors, indexing="ij"))
    keep = ~((a == info.min) & (b == -1)) if info.min else torch.ones_like(a, dtype=torch.bool)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        check(device, function, a[keep], b[keep])
    for function in (torch.mul, torch.maximum):
        check(device, function, a, b)
    check(device, torch.bitwise_right_shift, edge, torch.arange(0, 8, dtype=dtype))
    check(device, torch.pow, edge, 3)


# ---- copies


def test_moving_elements_of_every_size(device):
    for dtype in (torch.float8_e5m2, torch.float16, torch.float32, torch.float64, torch.complex128):
        bits = torch.randint(0, 256, (24 * dtype.itemsize,), dtype=torch.uint8)
        x = bits.view(dtype).view(2, 3, 4)
        moved = x.to(device).permute(2, 0, 1).contiguous()
        expected = x.permute(2, 0, 1).contiguous()
        assert torch.equal(moved.cpu().view(torch.uint8), expected.view(torch.uint8))


def test_copies_of_parts_into_strided_results(device):
    x = torch.randn(4, 5, 6)
    into = torch.empty(4, 2, 12, device=device)[..., ::2]  # CPU is wrong here
    torch.narrow_copy(x.to(device), 1, 2, 2, out=into)
    assert torch.equal(into.cpu(), x.narrow(1, 2, 2))


def test_conjugated_and_negated_views(device):
    x = values(torch.complex64, 5, 3)
    check(device, lambda t: t.conj().t().clone(), x)
    check(device, lambda t: t.conj().imag.clone(), x)
    check(device, lambda t: (t.conj() * t).real.clone(), x)


@pytest.mark.parametrize("limit", [65504.0, 1e5, INF])
def test_limits_beyond_the_dtype_are_refused(device, limit):
    def shrink(x):
        return functional.softshrink(x, limit)

    assert difference(device, shrink, values(torch.float16, 5)) is None
