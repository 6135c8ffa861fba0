"""Searching, counting and sets by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_lines(device, right):
    lines = torch.randint(0, 20, (3, 9)).float()
    ordered, places = lines.sort(-1)
    values = torch.randint(-1, 21, (3, 4)).float()
    values[0, 0] = float("nan")

    def work(lines, ordered, places, values):
        return (
            torch.searchsorted(ordered, values, right=right),
            torch.searchsorted(lines, values, right=right, sorter=places),
            torch.searchsorted(ordered[0], 4, right=right),
            torch.bucketize(values, ordered[1], right=right, out_int32=True),
        )

    assert_as_on_cpu(device, work, lines, ordered, places, values)


def test_sets(device):
    x = torch.randint(0, 9, (6, 50))

    def work(x):
        flags = {"return_inverse": True, "return_counts": True}
        return (
            torch.unique(x, **flags),
            torch.unique(x // 5, dim=1, **flags),
            torch.unique_consecutive(x // 4, **flags),
            torch.unique_consecutive(x // 4, dim=1, **flags),
            torch.isin(x, x[0, :3]),
            torch.isin(x, x[0, :3], invert=True),
        )

    assert_as_on_cpu(device, work, x)


def test_sets_of_nothing(device):
    def work(x):
        flags = {"return_inverse": True, "return_counts": True}
        return torch.unique(x, dim=1, **flags), torch.unique_consecutive(x, dim=1, **flags)

    assert_as_on_cpu(device, work, torch.ones(3, 0, 2))
    with pytest.raises(RuntimeError, match="0 sized dimensions"):
        torch.unique(torch.ones(3, 0, device=device), dim=0)


def test_counts(device):
    x = torch.randint(0, 9, (500,))
    weights = torch.rand(500)

    def work(x, weights):
        return (
            torch.bincount(x, minlength=12),
            torch.bincount(x, weights),
            torch.histc(weights, 7),
            torch.histc(weights, 5, 0.2, 0.7),
            torch.histogram(weights, 6, weight=weights, density=True),
            torch.histogram(weights, weights[:0].new_tensor([0.1, 0.4, 0.9])),
            (x > 4).reshape(5, 100).count_nonzero(1),
            torch.equal(x, x.clone()),
            torch.equal(x, x + 1),
        )

    assert_as_on_cpu(device, work, x, weights)


def test_negative_numbers_are_not_counted(device):
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device=device))
