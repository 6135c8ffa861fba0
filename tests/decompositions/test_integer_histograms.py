"""`histc` of integers, which PyTorch has on accelerators and not on CPU."""

import pytest
import torch


def counted(values: torch.Tensor, bins: int, low: int, high: int) -> torch.Tensor:
    """The histogram by Python's integers."""
    counts = [0] * bins
    for value in values.flatten().tolist():
        if low <= value <= high:
            counts[min((value - low) * bins // (high - low), bins - 1)] += 1
    return torch.tensor(counts, dtype=values.dtype)


BINS = [(4, 0, 4), (10, 0, 9), (7, 3, 50), (3, 20, 21)]


@pytest.mark.separate
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_counts(device, dtype):
    torch.manual_seed(0)
    values = torch.randint(0, 60, (5, 80)).to(dtype)
    on_device = values.to(device)
    for bins, low, high in BINS:
        expected = counted(values, bins, low, high)
        result = torch.histc(on_device, bins=bins, min=low, max=high)
        assert result.dtype == dtype
        assert result.device == device
        assert torch.equal(result.cpu(), expected)
        out = torch.empty(0, dtype=dtype, device=device)
        assert torch.histc(on_device.T, bins=bins, min=low, max=high, out=out) is out
        assert torch.equal(out.cpu(), expected)


def test_range_of_the_values(device):
    """Equal bounds mean the smallest and the largest value; equal values get a bin around them."""
    values = torch.tensor([5, -3, 7, 7, 0])
    result = torch.histc(values.to(device), bins=5)
    assert torch.equal(result.cpu(), counted(values, 5, -3, 7))
    same = torch.histc(torch.full((6,), 4, device=device), bins=3)
    assert same.tolist() == [0, 6, 0]
    assert torch.histc(torch.empty(0, dtype=torch.int64, device=device), bins=3).tolist() == [0] * 3


def test_wide_values_are_exact(device):
    values = torch.tensor([2**53, 2**53 + 1, 2**53 + 2, -(2**62)])
    result = torch.histc(values.to(device), bins=3, min=2**53, max=2**53 + 3)
    assert result.tolist() == [1, 1, 1]


def test_mistakes(device):
    for settings, message in (
        ({"bins": 0}, "bins must be > 0"),
        ({"min": 3, "max": 1}, "max must be larger than min"),
        ({"min": -(2**62), "max": 2**62}, "too many for 64-bit integers"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.histc(torch.arange(5, device=device), **settings)
