"""Histograms by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu, assert_raises_as_on_cpu


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [True, False])
def test_points(device, density, weighted):
    points = torch.randn(4, 50, 2)
    points[0, :4, 0] = torch.tensor([float("nan"), 9, -9, 0.5])
    weight = torch.rand(4, 50) if weighted else None
    edges = [torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([-2.0, -0.5, 0.0, 1.0])]

    def histograms(x, w, *bins):
        y = x.nan_to_num()
        return [
            torch.histogramdd(y, [3, 5], weight=w, density=density),
            torch.histogramdd(x, [2, 4], range=[-1.0, 1.0, -0.5, 2.0], weight=w, density=density),
            torch.histogramdd(x, bins, weight=w, density=density),
        ]

    assert_as_on_cpu(device, histograms, points, weight, *edges)


def test_equal_and_missing_points(device):
    assert_as_on_cpu(
        device,
        lambda x, y, z: [torch.histogramdd(p, [2, 3]) for p in (x, y)] + [torch.histogram(z, 3)],
        torch.ones(5, 2, dtype=torch.float64),
        torch.ones(0, 2, dtype=torch.float64),
        torch.ones(0),
    )


@pytest.mark.parametrize("bins", [[2], [2, 0], [2, 3, 4]])
def test_errors_are_those_of_cpu(device, bins):
    assert_raises_as_on_cpu(device, torch.histogramdd, torch.randn(5, 2), bins)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_histc_of_integers(device, dtype):
    """CPU has none: compared with that of the same numbers as floats."""
    x = torch.tensor([0, 1, 2, 3, 3, 9, 7, 7], dtype=dtype)
    for arguments in ((8, 0, 7), (4, 0, 3), (5, 0, 0), (3, 2, 9)):
        got = torch.histc(x.to(device), *arguments)
        torch.testing.assert_close(got.cpu(), torch.histc(x.double(), *arguments).to(dtype))
