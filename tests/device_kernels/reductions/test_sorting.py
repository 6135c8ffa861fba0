"""Sorting, and what follows from sorted values, by device kernels, against CPU."""

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


def test_sort_of_any_layout(device):
    x = torch.randn(40, 6, 50).permute(2, 0, 1)
    assert_as_on_cpu(device, lambda x: torch.sort(x, 0), x)
    assert x.to(device).sort(0).values.stride() == x.sort(0).values.stride()
    assert_as_on_cpu(device, lambda x: torch.sort(x), torch.tensor(3.0))
    assert_as_on_cpu(device, torch.msort, x)


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
        values, places = torch.sort(x, stable=True, dim=1, descending=largest)
        for k in (1, 64, 300):
            found = torch.topk(x.to(device), k, 1, largest)
            assert_close(found.values.cpu(), values[:, :k], equal_nan=True, rtol=0, atol=0)
            assert_close(found.indices.cpu(), places[:, :k])
    values, places = torch.sort(x, stable=True, dim=1)
    for k in (1, 2500, 5000):
        found = torch.kthvalue(x.to(device), k, 1)
        assert_close(found.values.cpu(), values[:, k - 1], equal_nan=True, rtol=0, atol=0)
        assert_close(found.indices.cpu(), places[:, k - 1])


def test_mode(device):
    x = torch.randint(0, 9, (100, 30))
    assert_as_on_cpu(device, lambda x: torch.mode(x, 0, keepdim=True).values, x)
