"""Interpolation by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate
from torch.testing import assert_close

from torch_outboard import fallback

# Mode, spatial dimensions, further arguments.
CASES = [
    ("nearest", 1, {"size": 13}),
    ("nearest", 3, {"scale_factor": (2, 1.5, 0.7)}),
    ("nearest-exact", 2, {"scale_factor": 1.7}),
    ("linear", 1, {"size": 4, "align_corners": True}),
    ("bilinear", 2, {"scale_factor": 2.3}),
    ("bilinear", 2, {"scale_factor": 2.3, "recompute_scale_factor": True}),
    ("bilinear", 2, {"size": (3, 17), "antialias": True}),
    ("trilinear", 3, {"size": (3, 9, 1), "align_corners": True}),
    ("bicubic", 2, {"size": (3, 17)}),
    ("bicubic", 2, {"size": (3, 17), "antialias": True}),
]


def names(case):
    return case if isinstance(case, str) else None


def forward_and_gradient(operand, mode, arguments):
    leaf = operand.detach().requires_grad_()
    result = interpolate(leaf, mode=mode, **arguments)
    weights = torch.arange(result.numel(), dtype=result.dtype).reshape(result.shape) / 100
    (gradient,) = torch.autograd.grad(result, leaf, weights.to(result.device))
    return result.detach(), gradient


@pytest.mark.parametrize(("mode", "dimensions", "arguments"), CASES, ids=names)
def test_forward_and_backward(device, mode, dimensions, arguments):
    torch.manual_seed(0)
    operand = torch.randn(2, 3, 5, 7, 6)[(..., *([0] * (3 - dimensions)))]
    expected = forward_and_gradient(operand, mode, arguments)
    with fallback.report() as report:
        actual = forward_and_gradient(operand.to(device), mode, arguments)
    for want, got in zip(expected, actual, strict=True):
        assert_close(got.cpu(), want)
    ways = {row.op: row.way for row in report.rows if "upsample" in row.op}
    assert len(ways) == 2
    assert set(ways.values()) == {"device"}, ways


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(device, dtype):
    operand = torch.randn(2, 3, 5, 7).to(dtype)
    for want, got in zip(
        forward_and_gradient(operand, "bilinear", {"scale_factor": 2}),
        forward_and_gradient(operand.to(device), "bilinear", {"scale_factor": 2}),
        strict=True,
    ):
        assert_close(got.cpu(), want)


def test_bytes_by_nearest(device):
    operand = torch.randint(0, 255, (1, 2, 5, 7), dtype=torch.uint8)
    assert_close(
        interpolate(operand.to(device), size=(3, 9)).cpu(), interpolate(operand, size=(3, 9))
    )


@pytest.mark.parametrize(("mode", "antialias"), [("bilinear", True), ("bicubic", False)])
def test_gradcheck(device, mode, antialias):
    leaf = torch.randn(1, 1, 3, 4, dtype=torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: interpolate(x, size=(2, 5), mode=mode, antialias=antialias), [leaf]
    )


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        ("bilinear", {"size": (11, 3)}),
        ("bicubic", {"scale_factor": (0.6, 2.3), "antialias": True}),
        ("bilinear", {"size": (3, 20), "antialias": True}),
        ("bicubic", {"size": (11, 3), "align_corners": True}),
        ("bicubic", {"size": (9, 5)}),
        ("bilinear", {"size": (9, 7)}),
    ],
    ids=str,
)
def test_bytes_are_those_of_cpu(device, mode, arguments):
    torch.manual_seed(0)
    for layout in (torch.contiguous_format, torch.channels_last):
        for channels in (3, 6):
            operand = torch.randint(0, 256, (2, channels, 9, 7), dtype=torch.uint8)
            operand = operand.contiguous(memory_format=layout)
            expected = interpolate(operand, mode=mode, **arguments)
            with fallback.report() as report:
                actual = interpolate(operand.to(device), mode=mode, **arguments)
            assert torch.equal(actual.cpu(), expected)
            assert actual.stride() == expected.stride()
            assert {row.way for row in report.rows} == {"device"}
