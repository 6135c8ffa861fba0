"""Sampling at the places of grids by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import grid_sample
from torch.testing import assert_close


def all_of(device, image, grid, *arguments):
    leaves = [t.to(device).detach().requires_grad_() for t in (image, grid)]
    result = grid_sample(*leaves, *arguments)
    weights = (torch.arange(result.numel()) % 8).to(result.dtype).reshape(result.shape)
    gradients = torch.autograd.grad(result, leaves, weights.to(result.device))
    return [t.detach().cpu() for t in (result, *gradients)]


NOT_FINITE = [float("nan"), float("inf"), -float("inf"), 1e30, -50.0]


@pytest.mark.parametrize(
    ("dimensions", "mode"),
    [(2, "bilinear"), (2, "bicubic"), (2, "nearest"), (3, "bilinear"), (3, "nearest")],
)
def test_coordinates_that_are_not_finite(device, dimensions, mode):
    """Values, and gradients where CPU computes them: there some write outside of their memory."""
    image = torch.arange(1.0, 1 + 2**dimensions).reshape(1, 1, *[2] * dimensions)
    grid = torch.zeros(len(NOT_FINITE), dimensions, dimensions)
    for i, value in enumerate(NOT_FINITE):
        grid[i].fill_diagonal_(value)
    grid = grid.reshape(1, *[1] * (dimensions - 1), -1, dimensions)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            want, got = (
                grid_sample(image.to(place), grid.to(place), mode, padding, corners).cpu()
                for place in ("cpu", device)
            )
            assert_close(got, want, equal_nan=True, msg=f"{padding}, {corners}: {got}, {want}")
    if dimensions == 2:
        for want, got in zip(
            all_of("cpu", image, grid, mode, "zeros", False),
            all_of(device, image, grid, mode, "zeros", False),
            strict=True,
        ):
            assert_close(got, want, equal_nan=True)


def test_bfloat16(device):
    """Coordinates are computed in float32, unlike CPU's."""
    image = torch.randn(1, 2, 5, 6).bfloat16()
    grid = (torch.rand(1, 4, 3, 2) * 2 - 1).bfloat16()
    for want, got in zip(
        all_of("cpu", image.float(), grid.float(), "bilinear", "zeros", False),
        all_of(device, image, grid, "bilinear", "zeros", False),
        strict=True,
    ):
        assert_close(got, want.bfloat16())
