"""Sorting, searching and counting by device kernels, against CPU."""

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_as_on_cpu
from torch_outboard.ops.ordering.sorting import RUN


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_stable_sort(device, dtype, descending):
    for n in (1, RUN, RUN + 1, 5 * RUN + 3):
        x = torch.randint(0, 9, (3, n, 2)).to(dtype)
        if dtype.is_floating_point:
            x[0, ::3] = float("nan")
        assert_as_on_cpu(
            device, lambda x: torch.sort(x, stable=True, dim=1, descending=descending), x
        )


# A group of a GPU sorts 8 elements of each of its items: several lines, one, or a part of one.
@pytest.mark.parametrize("n", [7, 100, 257, 512, 513, 1025, 20011])
def test_sort_of_lines_of_any_length(device, n):
    x = torch.randint(0, 99, (5, n)).float()
    assert_as_on_cpu(device, lambda x: torch.sort(x, stable=True), x)


def test_medians_of_lines_with_gaps(device):
    gaps = torch.randperm(300).reshape(4, 25, 3).float()
    gaps[::2, 3] = float("nan")
    gaps[1] = float("nan")

    def work(gaps):
        return (
            torch.median(gaps, 1, keepdim=True).values,
            torch.nanmedian(gaps, 1).values,
            torch.nanmedian(gaps),
        )

    assert_as_on_cpu(device, work, gaps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_selections_are_those_of_a_stable_sort(device, dtype):
    # Several blocks of a line, equal elements, NaN, both zeros, and values of both signs.
    x = torch.randint(0, 90, (3, 5000, 2)).to(dtype)
    if dtype.is_floating_point:
        x = x - 45
        x[0, ::37] = float("nan")
        x[1, ::41] = -0.0
    elif dtype.is_signed:
        x = (x - 45) * (1 << 40)

    for largest in (False, True):
        values, indices = torch.sort(x, stable=True, dim=1, descending=largest)
        for k in (1, 64, 300):
            found = torch.topk(x.to(device), k, 1, largest)
            assert_close(found.values.cpu(), values[:, :k], equal_nan=True, rtol=0, atol=0)
            assert_close(found.indices.cpu(), indices[:, :k])
    values, indices = torch.sort(x, stable=True, dim=1)
    for k in (1, 2500, 5000):
        found = torch.kthvalue(x.to(device), k, 1)
        assert_close(found.values.cpu(), values[:, k - 1], equal_nan=True, rtol=0, atol=0)
        assert_close(found.indices.cpu(), indices[:, k - 1])


# ---- searching and counting


def test_points(device):
    points = torch.randn(4, 50, 2)
    points[0, :4, 0] = torch.tensor([float("nan"), 9, -9, 0.5])
    edges = [torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([-2.0, -0.5, 0.0, 1.0])]

    def histograms(x, w, equal, *bins):
        options = {"weight": w, "density": True}
        return [
            torch.histogramdd(x, [2, 4], range=[-1.0, 1.0, -0.5, 2.0], **options),
            torch.histogramdd(x, bins, **options),
            torch.histogramdd(equal, [2, 3]),
            torch.histogram(equal[:0, 0], 3),
        ]

    assert_as_on_cpu(device, histograms, points, torch.rand(4, 50), torch.ones(5, 2), *edges)


def test_histc_of_integers(device):
    """CPU has none: compared with that of the same numbers as floats."""
    x = torch.tensor([0, 1, 2, 3, 3, 9, 7, 7], dtype=torch.uint8)
    for arguments in ((8, 0, 7), (4, 0, 3), (5, 0, 0), (3, 2, 9)):
        got = torch.histc(x.to(device), *arguments)
        assert_close(got.cpu(), torch.histc(x.double(), *arguments).to(x.dtype))


def test_indices_of_nan(device):
    ordered, indices = torch.randint(0, 20, (3, 9)).float().sort(-1)
    lines = torch.empty_like(ordered).scatter(-1, indices, ordered)
    values = torch.tensor([[torch.nan, 4.0], [torch.inf, -1.0], [7.0, torch.nan]])

    def work(lines, ordered, indices, values):
        return [
            torch.searchsorted(each, values, right=right, sorter=sorter)
            for each, sorter in ((ordered, None), (lines, indices))
            for right in (False, True)
        ]

    assert_as_on_cpu(device, work, lines, ordered, indices, values)


def test_sets_of_many_values(device):
    """The database has those of two."""
    flags = {"return_inverse": True, "return_counts": True}
    x = torch.randint(0, 9, (6, 50))
    assert_as_on_cpu(
        device, lambda x: (torch.unique(x, **flags), torch.unique(x // 5, dim=1, **flags)), x
    )
    mostly_zeros = (torch.rand(4, 99).pow(4) * 9).floor()
    assert_as_on_cpu(device, lambda x: torch.mode(x, 1).values, mostly_zeros)
