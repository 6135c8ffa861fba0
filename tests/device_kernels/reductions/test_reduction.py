"""The reduction engine against CPU: layouts, sizes around its limits, NaN, ties, out=."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torch_outboard import fallback

Reduce = Callable[..., object]


def check(call: Reduce, *inputs: torch.Tensor, device: torch.device, native: bool = True) -> None:
    """The same call on both devices; `native` wants a device kernel for every operator."""
    expected = call(*inputs)
    on_device = [x.to(device) for x in inputs]
    with fallback.report() as report:
        actual = call(*on_device)
    ways_taken = {row.way for row in report.rows}
    assert not native or ways_taken == {"device"}, report.rows
    torch.testing.assert_close(actual, expected, check_device=False, equal_nan=True)


SHAPES = [(3,), (7, 33), (4, 300, 5), (2, 70, 67), (20_000,)]
CALLS: dict[str, Reduce] = {
    "sum": lambda x, d: x.sum(d),
    "max": lambda x, d: tuple(x.max(d)),
    "var": lambda x, d: x.var(d, correction=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_dimensions(name: str, device: torch.device) -> None:
    for shape in SHAPES:
        x = torch.randn(shape)
        for dim in range(len(shape)):
            call = CALLS[name]
            check(lambda t, c=call, d=dim: c(t, d), x, device=device)


@pytest.mark.parametrize("name", ["argmax", "sum", "std", "prod"])
def test_whole(name: str, device: torch.device) -> None:
    for count in (2, 15, 4095, 4097, 300_001):
        x = torch.rand(count) * 0.02 + 0.99
        check(lambda t: getattr(t, name)(), x, device=device)


def test_strided_and_several_dimensions(device: torch.device) -> None:
    x = torch.randn(6, 10, 9, 20)
    check(lambda t: t.sum((0, 2)), x, device=device)
    check(lambda t: t.permute(3, 0, 2, 1).sum((1, 3)), x, device=device)
    check(lambda t: t[:, ::3, 1:, ::2].sum((1, 3), keepdim=True), x, device=device)
    check(lambda t: t[1:, :, :, 3].transpose(0, 2).argmax(), x, device=device, native=False)
    check(lambda t: t.expand(3, 6, 10, 9, 20).sum(0), x, device=device)
    check(lambda t: tuple(torch.var_mean(t, (0, 3))), x, device=device)


# Columns in tiles of a GPU's group: narrow, wide, and with a rest, over one dimension or several.
@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((5000, 4), 0), ((300, 131), 0), ((9, 700), 0), ((2, 900, 33), (0, 1)), ((3, 400, 6), 1)],
)
def test_columns(sizes: tuple[int, ...], dim: int | tuple[int, ...], device: torch.device) -> None:
    x = torch.randint(-9, 9, sizes).float()
    check(lambda x: x.sum(dim), x, device=device)
    check(lambda x: x.amax(dim), x, device=device)
    check(lambda x: x.to(torch.complex64).sum(dim), x, device=device, native=False)
    if isinstance(dim, int):
        check(lambda x: x.argmax(dim), torch.randn(sizes), device=device)


def test_nan_infinity_and_ties(device: torch.device) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1, nan, 3, nan] * 5, [inf, -inf, inf, 0] * 5, [-inf] * 20, [2, 2, 1, 1] * 5])
    for dim in (0, 1):
        check(lambda t, d=dim: tuple(t.max(d)), x, device=device)
        check(lambda t, d=dim: tuple(t.min(d)), x, device=device)
        check(lambda t, d=dim: t.amax(d), x, device=device)
        check(lambda t, d=dim: t.nansum(d), x, device=device)
        check(lambda t, d=dim: t.var(d), x, device=device)


def test_empty(device: torch.device) -> None:
    x = torch.empty(3, 0)
    check(lambda t: t.sum(1), x, device=device, native=False)
    check(lambda t: t.mean(0), x, device=device, native=False)
    with pytest.raises(IndexError):
        x.to(device).amax(1)


def test_long_sums_stay_accurate(device: torch.device) -> None:
    # One running sum would be wrong by 4 %.
    x = torch.full((1 << 22,), 0.1)
    wanted = float(x.double().sum())
    assert abs(float(x.to(device).sum()) - wanted) < 2e-6 * wanted
