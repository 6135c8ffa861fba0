"""Interpolation by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from torch_outboard import fallback


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
