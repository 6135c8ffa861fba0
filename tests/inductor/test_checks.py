"""The checks of compiled entries find what is wrong, and let pass what is left open."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests.inductor.checks import LIKE_CPU, NOT_RUNNABLE, check_entry, check_sample

ENTRIES = {op.full_name: op for op in op_db}
compiling = torch.compiler.is_compiling


def entry(name: str, function: Callable[..., object]) -> OpInfo:
    """An entry that calls something else."""
    op = copy.copy(ENTRIES[name])
    op.op = function
    op.sample_inputs_func = lambda *_, **__: [SampleInput(torch.tensor([1.0, 5.0, 5.0, 2.0]))]
    return op


def difference(name: str, function: Callable[..., object], device: torch.device) -> str:
    op = entry(name, function)
    (sample,) = op.sample_inputs("cpu", torch.float32)
    return check_sample(op, sample, device, backward=False, dynamic=False)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x + 1, ""),
        (lambda x: x + (1 if compiling() else 2), "values: "),
        (lambda x: x.double() if compiling() else x + 0, "torch.float64 of (4,)"),
        (lambda x: (x + 1, x) if compiling() else x + 1, "2 results"),
        (lambda x: x + torch.rand_like(x), ""),
        (lambda x: x + torch.rand_like(x) * (2 if compiling() else 1), "values: "),
        (lambda x: x.reshape(3) if compiling() else x + 1, "TorchRuntimeError"),
        (lambda x: x.nothing, NOT_RUNNABLE),
    ],
)
def test_differences(function: Callable[..., object], reason: str, device: torch.device):
    found = difference("abs", function, device)
    assert found.startswith(reason), found
    assert bool(found) == bool(reason), found


def test_ties(device: torch.device):
    def sort(places: list[int]) -> Callable[..., object]:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            chosen = torch.tensor(places if compiling() else [0, 3, 1, 2], device=x.device)
            return x[chosen], chosen

        return function

    assert not difference("sort", sort([0, 3, 2, 1]), device)
    assert difference("sort", sort([0, 3, 2, 2]), device)


@pytest.mark.slow
def test_what_inductor_has_wrong_on_cpu_is_told_apart(device: torch.device):
    def check(function: Callable[..., object]) -> object:
        op = entry("abs", function)
        return check_entry(op, torch.float32, device, dynamic=False, count=1)["status"]

    assert check(lambda x: x + (1 if compiling() else 2)) == LIKE_CPU
    assert check(lambda x: x + (1 if compiling() and not x.is_cpu else 2)) == "wrong"


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    ("function", "status"),
    [
        (lambda x: torch.special.i1(x), "right"),
        (lambda x: torch.special.i1(x) + (compiling() and not x.is_cpu), "wrong"),
        (lambda x: x.nothing, NOT_RUNNABLE),
    ],
)
def test_what_has_no_gradient_on_cpu_is_compared_forward(
    function: Callable[..., object], status: str, device: torch.device
):
    def samples(op: object, device: str, dtype: torch.dtype, requires_grad: bool, **_: object):
        yield SampleInput(torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=requires_grad))

    op = entry("special.i1", function)
    op.sample_inputs_func = samples
    answer = check_entry(op, torch.bfloat16, device, dynamic=False, count=1)
    assert answer["status"] == status, answer["reasons"]
