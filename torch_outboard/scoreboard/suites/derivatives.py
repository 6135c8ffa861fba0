"""Derivatives against differences of results, in double precision, by PyTorch's `gradcheck`.

- gradcheck: gradients
- gradgradcheck: gradients of gradients
- forward mode: derivatives by forward mode

A sample counts if it passes on CPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    Outcome,
    attempt,
    differentiable,
    prepare,
)
from torch_outboard.scoreboard.comparison.differences import first_line
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import operator, operators, samples_of

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

SAMPLES = 2  # of an entry
# Tensors with more elements take long and find nothing else.
LARGEST = 4096
# Each check, and the attribute of an entry that says whether it can be done.
CHECKS = {
    "gradcheck": "supports_autograd",
    "gradgradcheck": "supports_gradgrad",
    "forward mode": "supports_forward_ad",
}


def entries(dtype: str) -> list[str]:
    """Those with a gradient on CPU."""
    differentiable = {n: op for n, op in operators().items() if op.supports_autograd}
    if not dtype:
        return list(differentiable)
    wanted = getattr(torch, dtype)
    return [n for n, op in differentiable.items() if wanted in op.supported_backward_dtypes("cpu")]


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    warnings.simplefilter("ignore")  # CPU gives the same ones
    check_entry(operator(entry), getattr(torch, dtype), device, result, limits)


def check_entry(
    op: OpInfo, dtype: torch.dtype, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    samples = samples_of(op, dtype, result, requires_grad=True)
    for number, sample in limits.of(samples, SAMPLES):
        for name, attribute in CHECKS.items():
            if not getattr(op, attribute, False) or not result.begins(name, number):
                continue
            on_cpu = attempt(partial(gradcheck, op, sample, CPU, name))
            if not on_cpu.value:
                continue
            result.samples += 1
            actual = attempt(partial(gradcheck, op, sample, device, name))
            result.add(name, number, problem(actual))


def problem(actual: Outcome) -> str | None:
    """On the device, where CPU passes."""
    if actual.error is not None:
        return first_line(actual.error)
    return None if actual.value else "nothing to differentiate, unlike on CPU"


def gradcheck(op: OpInfo, sample: SampleInput, device: torch.device, name: str) -> bool:
    """Raises what PyTorch's function does; False without results in double precision."""
    call = prepare(op, sample, device, requires_grad=True)
    leaves = [t for t in call.tensors if t.requires_grad]
    if not leaves or any(t.numel() > LARGEST for t in call.tensors):
        return False
    function = of_leaves(op, sample, call, leaves)
    torch.manual_seed(0)
    found = function(*leaves)
    if not found or any(t.dtype not in (torch.float64, torch.complex128) for t in found):
        return False
    options: dict[str, Any] = {
        "fast_mode": op.gradcheck_fast_mode is not False,
        "nondet_tol": op.gradcheck_nondet_tol,
    }
    if name == "gradgradcheck":
        return bool(torch.autograd.gradgradcheck(function, leaves, **options))
    if name == "forward mode":
        options |= {
            "check_forward_ad": True,
            "check_backward_ad": False,
            "check_undefined_grad": False,
        }
    return bool(torch.autograd.gradcheck(function, leaves, **options))


def of_leaves(
    op: OpInfo, sample: SampleInput, call: Any, leaves: list[torch.Tensor]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The call as a function of the tensors that can be differentiated."""
    numbers = {id(t): number for number, t in enumerate(leaves)}

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def put(value: Any) -> Any:
            return given[numbers[id(value)]] if id(value) in numbers else value

        first, args, kwargs = tree_map(put, (call.input, tuple(call.args), dict(call.kwargs)))
        value = op.gradcheck_wrapper(op.op, first, *args, **kwargs)
        if sample.output_process_fn_grad is not None:
            value = sample.output_process_fn_grad(value)
        return tuple(differentiable(value))

    return function
