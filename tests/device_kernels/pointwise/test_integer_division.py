"""Integers divided by zero: CPU raises at the call, the device there or at the next wait."""

import pytest
import torch

from tests.device_kernels.on_device import difference

OPERATORS = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "fmod": torch.fmod,
    "truncated": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "//=": lambda x, y: x.clone().floor_divide_(y),
    "out=": lambda x, y: torch.fmod(x, y, out=torch.empty_like(x)),
}
DTYPES = (torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_among_divisors(device, dtype):
    """Also the last element, which is in the rest of a vector, of any layout."""
    x = torch.arange(1, 38, dtype=dtype)
    divisors = {
        "none": torch.arange(37, 0, -1, dtype=dtype),
        "the last": torch.arange(36, -1, -1, dtype=dtype),
        "strided": torch.arange(73, -1, -1, dtype=dtype)[1::2],
        "strided, none": torch.arange(74, 0, -1, dtype=dtype)[::2],
        "broadcast": torch.zeros(1, dtype=dtype),
    }
    for name in OPERATORS if dtype == torch.int32 else ("//", "%"):
        for kind, y in divisors.items():
            assert difference(device, OPERATORS[name], x, y) is None, f"{name} by {kind}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_number_by_minus_one(device, dtype):
    """Processors trap on it, and on zeros; the device goes on."""
    x = torch.full((19,), torch.iinfo(dtype).min, dtype=dtype, device=device)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        assert function(x, torch.zeros_like(x) - 1).shape == x.shape
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x, torch.zeros_like(x)).sum().item()
        torch.accelerator.synchronize()
    assert (torch.arange(1, 5, device=device) // 2).tolist() == [0, 1, 1, 2]


def test_numbers_are_refused_at_the_call(device):
    x = torch.arange(1, 5, device=device)
    for call in (
        lambda: x // 0,
        lambda: x.remainder_(0),
        lambda: torch.fmod(x, 0),
        lambda: torch.div(x, 0, rounding_mode="trunc"),
        lambda: torch.remainder(7, x - 1).sum().item(),
    ):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call()
    assert x.tolist() == [1, 2, 3, 4]
    assert (x[:0] // 0).tolist() == []
    assert (x.float() // 0).tolist() == [float("inf")] * 4


def test_matrices_that_cross(device):
    x, y = (torch.arange(1, 1 + 40 * 50, dtype=torch.int32).reshape(n, 2000 // n) for n in (40, 50))
    assert difference(device, torch.floor_divide, x, y.t()) is None
    y[-1, -1] = 0
    assert difference(device, torch.floor_divide, x, y.t(), refused=True) is None
