"""Comparing what a function gives compiled on the device with eager CPU."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.utils._pytree import tree_map

from torch_outboard import _C

Function = Callable[..., Any]


def moved(tree: Any, device: object) -> Any:
    """Copies of the tensors of a tree on a device, as leaves of autograd."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        copy = value.detach().to(device, copy=True)
        return copy.requires_grad_(value.requires_grad)

    return tree_map(move, tree)


def compare(
    function: Function, compiled: Function, arguments: Sequence[Any], device: object,
    tolerance: float,
) -> None:  # fmt: skip
    """Results of a compiled function on the device, and its arguments afterwards, are CPU's."""
    theirs, ours = moved(arguments, "cpu"), moved(arguments, device)
    expected, actual = function(*theirs), compiled(*ours)
    torch.testing.assert_close(
        moved((actual, ours), "cpu"), moved((expected, theirs), "cpu"),
        rtol=tolerance, atol=tolerance, equal_nan=True,
    )  # fmt: skip


def check(
    function: Function, *arguments: Any, device: object, tolerance: float = 1e-5, **options: Any
) -> None:
    """A function compiled with these options gives on the device what eager CPU gives."""
    compare(function, torch.compile(function, **options), arguments, device, tolerance)


def check_sizes(
    function: Function, *calls: Sequence[Any], device: object, tolerance: float = 1e-5
) -> None:
    """A function compiled with dynamic shapes, called with arguments of several sizes."""
    compiled = torch.compile(function, dynamic=True)
    for arguments in calls:
        compare(function, compiled, arguments, device, tolerance)


def checked_code(
    function: Function, *arguments: Any, device: object, tolerance: float = 1e-5
) -> str:
    """The source that a function becomes, whose results are compared with eager CPU."""

    def compiled(*ours: Any) -> Any:
        actual, codes[:] = run_and_get_code(torch.compile(function), *ours)
        return actual

    skip_without_kernels()
    codes: list[str] = []
    compare(function, compiled, arguments, device, tolerance)
    return "\n".join(codes)


def kernels_of(function: Function, *arguments: Any) -> str:
    """The source that a function becomes."""
    skip_without_kernels()
    _, codes = run_and_get_code(torch.compile(function), *arguments)
    return "\n".join(codes)


def skip_without_kernels() -> None:
    if not _C.runs_code(0):
        pytest.skip("the device has no compiler for kernels")


def launches(code: str) -> int:
    """Launches in generated code."""
    return len(re.findall(r"(?m)^\s+kernel_\d+\(", code))
