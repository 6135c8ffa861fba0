"""Fixtures of tests that need a device which compiles OpenCL C: `--configuration ocl`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torch_outboard import _C, fallback, ways


@pytest.fixture(autouse=True)
def device_way(device: torch.device) -> Iterator[None]:
    if not _C.runs_code(device.index):
        pytest.skip("the driver of this run compiles no code; use --configuration ocl")
    with ways.way("device"), fallback.policy(copied="allow"):
        yield


def ways_of(report: fallback.Report) -> dict[str, str]:
    """Operators of a report with the way that each took last."""
    return {row.op: row.way for row in report.rows}
