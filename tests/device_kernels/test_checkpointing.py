"""Activation checkpointing with dropout by device kernels."""

from __future__ import annotations

import pytest
import torch

from tests.checkpointed import gradients
from torch_outboard import fallback


@pytest.mark.parametrize(
    ("reentrant", "autocast"),
    [(True, None), (True, torch.bfloat16), (False, torch.bfloat16), (False, None)],
)
def test_the_same_masks_are_drawn_again(device, reentrant, autocast):
    with fallback.report() as report:
        expected = gradients(device, None, autocast)
        got = gradients(device, reentrant, autocast)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert {row.way for row in report.rows if "dropout" in row.op or "bernoulli" in row.op} == {
        "device"
    }
