"""Convolutions by a library (run by test_library_drivers.py)."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from tests.library.library import Mode, calls, entry_calls
from tests.library.product_checks import numbers, same
from torch_outboard import fallback

PASSES = ("forward", "backward_input", "backward_weight")


def step(
    device: torch.device, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, mode: Mode
) -> Counter[str]:
    """A convolution and its gradients, as on CPU."""

    def run(*given: torch.Tensor) -> list[Any]:
        result = functional.conv2d(*given)
        result.backward(torch.arange(result.numel()).cos().reshape(result.shape).to(result))
        return [result, *(leaf.grad for leaf in given)]

    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    return same(device, run, *leaves, mode=mode)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("kind", ["conv", "conv_transpose"])
def test_entries(device: torch.device, kind: str, dimensions: int) -> None:
    made = entry_calls(f"nn.functional.{kind}{dimensions}d", torch.float32, device)
    assert all(made[each] > 0 for each in (*PASSES, "biases"))


def test_layouts(device: torch.device) -> None:
    x = numbers(2, 4, 6, 5).to(memory_format=torch.channels_last)
    weight = numbers(3, 4, 3, 3).to(memory_format=torch.channels_last)
    made = same(device, functional.conv2d, x, weight)
    assert made["forward"] == 1
    strided = numbers(4, 12, 5, 6).transpose(0, 1)[::3].transpose(2, 3)
    with calls() as made, fallback.policy(copied="allow"):
        result = functional.conv2d(strided.to(device), numbers(3, 4, 3, 3).to(device))
    assert made["forward"] == 1
    assert_close(result.cpu(), functional.conv2d(strided, numbers(3, 4, 3, 3)))


def test_what_the_library_lacks(device: torch.device) -> None:
    """The bias alone, one of the gradients alone, or everything."""
    x, weight, bias = numbers(2, 4, 6, 5), numbers(3, 4, 3, 3), numbers(3)
    made = step(device, x, weight, bias, Mode.NO_BIAS)
    assert [made[each] for each in (*PASSES, "biases")] == [1, 1, 1, 0]
    made = step(device, x, weight, bias, Mode.NO_WEIGHT_PASS)
    assert [made[each] for each in PASSES] == [1, 1, 0]
    for mode in (Mode.DECLINES, Mode.DECLINES_LATE):
        made = step(device, x, weight, bias, mode)
        assert not any(made[each] for each in PASSES)
        assert made["queries"] > 0


def test_failure_is_raised(device: torch.device) -> None:
    x, weight = numbers(1, 2, 5, 5).to(device), numbers(2, 2, 3, 3).to(device)
    with calls(Mode.FAILS), pytest.raises(RuntimeError, match=r"convolution.*out of order"):
        functional.conv2d(x, weight)


def test_mistakes_never_reach_the_library(device: torch.device) -> None:
    x, weight = numbers(1, 2, 5, 5).to(device), numbers(2, 3, 3, 3).to(device)
    with calls() as made, fallback.policy(copied="allow"), pytest.raises(RuntimeError):
        functional.conv2d(x, weight)
    assert made["queries"] == 0
    empty = same(device, functional.conv2d, numbers(0, 2, 5, 5), numbers(2, 2, 3, 3))
    assert empty["queries"] == 0
