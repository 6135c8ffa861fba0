"""Searching, counting and sets by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu


def test_places_of_nan(device):
    ordered, places = torch.randint(0, 20, (3, 9)).float().sort(-1)
    lines = torch.empty_like(ordered).scatter(-1, places, ordered)
    values = torch.tensor([[torch.nan, 4.0], [torch.inf, -1.0], [7.0, torch.nan]])

    def work(lines, ordered, places, values):
        return [
            torch.searchsorted(each, values, right=right, sorter=sorter)
            for each, sorter in ((ordered, None), (lines, places))
            for right in (False, True)
        ]

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


def test_counts_of_many(device):
    def work(x, weights):
        return torch.bincount(x, minlength=12), torch.bincount(x, weights), weights.histc(7)

    assert_as_on_cpu(device, work, torch.randint(0, 9, (500,)), torch.rand(500))


def test_negative_numbers_are_not_counted(device):
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device=device))
