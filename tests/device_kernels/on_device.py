"""Comparison of a computation by device kernels with the same on CPU."""

from collections.abc import Callable, Set
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from torch_outboard import fallback
from torch_outboard.scoreboard.comparison.calls import CPU, attempt, error_difference
from torch_outboard.scoreboard.comparison.differences import tree_difference
from torch_outboard.scoreboard.comparison.transplant import Transplant

# Operators that move data and prepare memory, at any placement.
SUPPORT = {"aten::_copy_from", "aten::_to_copy", "aten::fill_.Scalar", "aten::zero_"}


def compare(
    device: torch.device,
    function: Callable[..., Any],
    *arguments: Any,
    support: Set[str] = SUPPORT,
    **tolerances: Any,
) -> set[str]:
    """Asserts that `function` gives the same on `device` as on CPU, and there by device kernels.

    Returns the operators that ran. `support` may run anywhere. Tolerances are those of
    `assert_close`.
    """
    expected = function(*Transplant(CPU, requires_grad=True)(arguments))
    moved = Transplant(device, requires_grad=True)(arguments)
    with fallback.report() as report:
        result = function(*moved)
    for theirs, ours in zip(tree_leaves(expected), tree_leaves(result), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert_close(ours.detach().cpu(), theirs.detach(), equal_nan=True, **tolerances)
        else:
            assert ours == theirs
    ran = {(row.op, row.dtype, row.placement) for row in report.rows}
    elsewhere = {row for row in ran if row[2] != "device" and row[0] not in support}
    assert not elsewhere, elsewhere
    return {op for op, _, _ in ran}


def with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., list[Any]]:
    """The result of `function` and the gradients of its arguments, for some gradient of it."""

    def run(*arguments: Any) -> list[Any]:
        result = function(*arguments)
        gradient = torch.arange(result.numel(), dtype=torch.float32).cos().reshape(result.shape)
        result.backward(gradient.to(result))
        leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        return [result, *(leaf.grad for leaf in leaves)]

    return run


def assert_as_on_cpu(device: torch.device, function: Callable[..., Any], *arguments: Any) -> None:
    """As `compare`, with nothing at all on the host."""
    assert compare(device, function, *arguments, support=frozenset())


def assert_raises_as_on_cpu(
    device: torch.device, function: Callable[..., Any], *arguments: Any
) -> None:
    """Asserts that `function` raises the same exception on `device` as on CPU."""
    raised = []
    for location in (CPU, device):
        with pytest.raises(Exception) as caught:  # noqa: PT011, whatever CPU raises
            function(*Transplant(location)(arguments))
        raised.append((caught.type, str(caught.value).splitlines()[0]))
    assert raised[0] == raised[1]


def difference(
    device: torch.device, function: Callable[..., Any], *arguments: Any, refused: bool = False
) -> str | None:
    """The difference between `function` on `device` and on CPU, errors included; None if none.

    Args:
        refused: CPU has to raise.
    """

    def call(location: torch.device) -> Any:
        value = function(*Transplant(location)(arguments))
        torch.accelerator.synchronize()  # raises what a device kernel found wrong
        return value

    expected, actual = (attempt(partial(call, location)) for location in (CPU, device))
    if refused and expected.error is None:
        return "CPU takes it"
    if expected.error is not None or actual.error is not None:
        return error_difference(expected, actual)
    return tree_difference(expected.value, actual.value, device)
