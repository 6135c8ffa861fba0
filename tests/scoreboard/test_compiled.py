"""The checks of compiled entries find what is wrong, and let pass what is left open."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.compiled import LIKE_CPU, check_entry, check_sample

compiling = torch.compiler.is_compiling


@pytest.fixture(autouse=True)
def no_kernels_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions know whether they are compiled; that takes no code."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))


def entry(name: str, function: Callable[..., object]) -> Any:
    """An entry of the operator database that calls something else."""
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds
    from torch.testing._internal.opinfo.core import SampleInput

    op = copy.copy(next(op for op in op_db if op.full_name == name))
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
        (lambda x: x + (1 if compiling() else 2), "values: "),
        (lambda x: x.double() if compiling() else x + 0, "torch.float64 of (4,)"),
        (lambda x: (x + 1, x) if compiling() else x + 1, "2 results"),
        (lambda x: x + torch.rand_like(x) * (2 if compiling() else 1), "values: "),
        (lambda x: x.reshape(3) if compiling() else x + 1, "TorchRuntimeError"),
    ],
)
def test_differences(function: Callable[..., object], reason: str, device: torch.device):
    assert difference("abs", function, device).startswith(reason)


def test_ties(device: torch.device):
    def sort(indices: list[int]) -> Callable[..., object]:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            chosen = torch.tensor(indices if compiling() else [0, 3, 1, 2], device=x.device)
            return x[chosen], chosen

        return function

    assert not difference("sort", sort([0, 3, 2, 1]), device)
    assert difference("sort", sort([0, 3, 2, 2]), device)


def outcome(op: Any, dtype: torch.dtype, device: torch.device) -> str:
    result = EntryResult()
    check_entry(op, dtype, device, result, Limits(most=1))
    if result.failures:
        return "fail"
    return "pass" if result.samples else " ".join(result.notes)


def test_what_inductor_has_wrong_on_cpu_is_told_apart(device: torch.device):
    def check(function: Callable[..., object]) -> str:
        return outcome(entry("abs", function), torch.float32, device)

    assert LIKE_CPU in check(lambda x: x + (1 if compiling() else 2))
    assert check(lambda x: x + (1 if compiling() and not x.is_cpu else 2)) == "fail"


@pytest.mark.parametrize(("more", "expected"), [(0, "pass"), (1, "fail")])
def test_what_has_no_gradient_on_cpu_is_compared_forward(
    more: int, expected: str, device: torch.device
):
    from torch.testing._internal.opinfo.core import SampleInput

    def samples(op: object, device: str, dtype: torch.dtype, requires_grad: bool, **_: object):
        yield SampleInput(torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=requires_grad))

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.special.i1(x) + (more if compiling() and not x.is_cpu else 0)

    op = entry("special.i1", function)
    op.sample_inputs_func = samples
    assert outcome(op, torch.bfloat16, device) == expected
