"""What tests of device kernels share: the same call on the device and on CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_map

from torch_outboard import fallback


def assert_as_on_cpu(device: torch.device, function: Callable[..., Any], *arguments: Any) -> None:
    """`function` of the arguments gives what it gives on CPU, by device kernels alone."""

    def on_device(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf

    expected = function(*arguments)
    moved = tree_map(on_device, arguments)
    with fallback.report() as report:
        result = function(*moved)
    assert_close(tree_map(to_cpu, result), expected, equal_nan=True)
    elsewhere = {row.op for row in report.rows if row.way != "device"}
    assert not elsewhere, f"these ran on the host: {sorted(elsewhere)}"
    assert any(row.way == "device" for row in report.rows)


def to_cpu(leaf: Any) -> Any:
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf


def gradcheck_on(device: torch.device, function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Gradients of `function` by device kernels agree with differences, in float64."""
    leaves = [x.to(device, torch.float64).requires_grad_() for x in inputs]
    with fallback.report() as report:
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
    assert any(row.way == "device" for row in report.rows)
