"""Comparing what a function gives compiled on the device with eager CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from torch_outboard import _C


def moved(tree: Any, device: object) -> Any:
    """Tensors of a tree on a device, as leaves of autograd."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device).requires_grad_(value.requires_grad)

    return tree_map(move, tree)


def check(
    function: Callable[..., Any], *arguments: Any, device: object, tolerance: float = 1e-5,
    **options: Any,
) -> None:  # fmt: skip
    """The results of a compiled function on the device are those of eager CPU."""
    expected = function(*moved(arguments, "cpu"))
    actual = torch.compile(function, **options)(*moved(arguments, device))
    torch.testing.assert_close(
        moved(actual, "cpu"), expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


def kernels_of(function: Callable[..., Any], *arguments: Any) -> str:
    """The text of the code that a function becomes."""
    from torch._inductor.utils import run_and_get_code

    if not _C.runs_code(0):
        pytest.skip("the device has no compiler for kernels")
    _, codes = run_and_get_code(torch.compile(function), *arguments)
    return "\n".join(codes)


def launches(code: str) -> int:
    """Launches in generated code."""
    return len(re.findall(r"(?m)^\s+kernel_\d+\(", code))
