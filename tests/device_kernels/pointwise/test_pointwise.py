"""The pointwise engine against CPU: dtypes, layouts, sizes, forms and types of results.

OpInfo's samples go through every row of the tables (tests/opinfo); here are the corners that they
do not reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from tests.device_kernels.on_device import assert_raises_as_on_cpu, compare

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
    for function in (torch.add, torch.mul, torch.eq):
        check(device, function, a, b)
    check(device, torch.where, values(torch.bool, 5, 1), a, b)


# First of integers, whose kernels for 1 and for 1.5 differ.
@pytest.mark.parametrize("dtype", [torch.int64, *FLOATS, torch.uint8, torch.bool, torch.complex64])
def test_scalars_promote_as_on_cpu(device, dtype):
    a = values(dtype, 11)
    for scalar in (2, 1.5, True):
        check(device, torch.mul, a, scalar)
        check(device, torch.mul, a, torch.tensor(scalar))
        check(device, torch.eq, a, scalar)


def test_a_scalar_on_the_device(device):
    check(device, torch.add, values(torch.float16, 20), torch.tensor(1e5))
    x = values(torch.float16, 20)
    on_device = x.to(device) + torch.tensor(3.0, device=device)
    assert on_device.dtype == torch.float16
    torch.testing.assert_close(on_device.cpu(), x + 3)


# ---- sizes and layouts


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 4095, 4097, 100_003])
def test_sizes(device, size):
    for dtype in (torch.float32, torch.uint8, torch.float64):
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
        moved = [device_view(t, device) for t in (a, b)]
        torch.testing.assert_close(torch.mul(*moved).cpu(), a * b)


def device_view(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The same view of a copy of the storage: `to` would make it dense."""
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to(device)
    return storage.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


@pytest.mark.parametrize("dimensions", [12, 14])
def test_many_dimensions(device, dimensions):
    """More than 12 are declined, and the result is still right."""
    x = values(torch.float32, *([2] * dimensions)).permute(*reversed(range(dimensions)))
    y = values(torch.float32, *([2] * dimensions))
    torch.testing.assert_close((device_view(x, device) + y.to(device)).cpu(), x + y)


# ---- forms


def test_results_in_memory_of_others(device):
    x, y = values(torch.float32, 3, 33), values(torch.float32, 3, 33, seed=1)
    strided = torch.zeros(33, 3, dtype=torch.float64, device=device).t()
    torch.mul(x.to(device), y.to(device), out=strided)
    torch.testing.assert_close(strided.cpu(), (x * y).double())
    a = x.to(device)
    torch.exp(a, out=a)
    torch.testing.assert_close(a.cpu(), x.exp())


WRONG: list[Callable] = [
    lambda x: x.long().add_(0.5),
    lambda x: torch.add(x, x, out=x.long()),
    lambda x: x[:1].add_(x),
    lambda x: x.expand(4, x.numel()).add_(1),
    lambda x: torch.add(x[:-1], 1, out=x[1:]),
    lambda x: torch.sub(x > 0, x > 0),
    lambda x: torch.add(x.long(), x.long(), alpha=0.5),
    lambda x: torch.bitwise_and(x, x),
    lambda x: torch.tensor([1], device=x.device) ** torch.tensor(-1, device=x.device).item(),
]


def test_errors_are_those_of_cpu(device):
    for wrong in WRONG:
        assert_raises_as_on_cpu(device, wrong, values(torch.float32, 8))


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
        torch.sigmoid, torch.tanh, torch.angle, torch.trunc, torch.special.entr, torch.erf,
        lambda x: torch.clamp(x, -1, 1), lambda x: torch.clamp(x, min=0), torch.floor,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_of_one_operand(device, function, dtype):
    x = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    check(device, function, x)
    expected = function(x)
    if expected.is_floating_point():
        got = torch.signbit(function(x.to(device)).cpu())
        assert torch.equal(got[~expected.isnan()], torch.signbit(expected)[~expected.isnan()])


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
    for function in (torch.add, torch.mul, torch.bitwise_xor, torch.maximum, torch.le):
        check(device, function, a, b)
    shifts = torch.arange(0, 8, dtype=dtype)
    check(device, torch.bitwise_left_shift, edge, shifts)
    check(device, torch.bitwise_right_shift, edge, shifts)
    check(device, torch.bitwise_not, edge)
    check(device, torch.pow, edge, 3)


# ---- copies


DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_conversions(device, source, target):
    x = values(source, 3, 37)
    if source.is_complex and not target.is_complex:
        pytest.skip("CPU warns of the imaginary part that is lost")
    check(device, lambda t: t.to(target, copy=True), x)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex128, torch.complex32, torch.float8_e5m2])
def test_moving_elements_of_every_size(device, dtype):
    bits = torch.randint(0, 256, (24 * dtype.itemsize,), dtype=torch.uint8)
    x = (bits % 2).view(dtype) if dtype == torch.bool else bits.view(dtype)
    x = x.view(2, 3, 4)
    moved = x.to(device).permute(2, 0, 1).contiguous()
    expected = x.permute(2, 0, 1).contiguous()
    assert torch.equal(moved.cpu().view(torch.uint8), expected.view(torch.uint8))


def test_conjugated_and_negated_views(device):
    x = values(torch.complex64, 5, 3)
    check(device, lambda t: t.conj().t().clone(), x)
    check(device, lambda t: t.conj().imag.clone(), x)
    check(device, lambda t: (t.conj() * t).real.clone(), x)
