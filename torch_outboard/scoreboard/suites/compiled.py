"""The operators of the database under torch.compile: with static and with dynamic shapes.

A sample is compiled alone, forward and where possible backward, and compared with eager CPU. What
draws random numbers is compared with the device in eager mode, from the same seed.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard.scoreboard.comparison.calls import CPU, in_float64, nature, prepare
from torch_outboard.scoreboard.comparison.differences import (
    as_exact_as,
    significant_strides,
    tensors_in,
    value_difference,
)
from torch_outboard.scoreboard.comparison.order_statistics import tie_check, ties_of
from torch_outboard.scoreboard.exclusion_table import exclusions_for
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites import COMPILED_DYNAMIC_DTYPES
from torch_outboard.scoreboard.suites.database import operator

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

# Each check, and whether its shapes are dynamic.
CHECKS = {"compiled": False, "compiled dynamic": True}
SAMPLES = 3  # of an entry
# Compiled kernels of these round once, at their end.
_HALVES = {torch.float16: 0.05, torch.bfloat16: 0.05}
# Entries with results that decompositions make on all devices and CPU's kernels do not: statistics
# in evaluation, or in the parameters' dtype. There the first result and gradients are compared.
OTHER_STATISTICS = frozenset(
    {
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_batch_norm_with_update",
        "native_layer_norm",
    }
)
# Samples that one cannot run: CPU neither, or Inductor's backend for CPU is wrong, too.
NOT_RUNNABLE, LIKE_CPU = "not runnable", "like Inductor on CPU"


class Run:
    """Calls of a sample."""

    def __init__(self, op: OpInfo, sample: SampleInput, backward: bool) -> None:
        self.op = op
        self.sample = sample
        self.backward = backward
        self.forward_results = 0

    def on(
        self, device: torch.device, function: Any = None, exact: bool = False
    ) -> list[torch.Tensor]:
        """Results and gradients, from the same seed.

        Args:
            function: what to call instead of the entry's operator.
            exact: on CPU, with twice the digits.
        """
        if exact:
            call = in_float64(self.sample, self.backward)
        else:
            call = prepare(self.op, self.sample, device, self.backward)
        torch.manual_seed(0)
        results = tensors_in(call.of(function or self.op.op))
        self.forward_results = len(results)
        leaves = [t for t in call.tensors if t.requires_grad]
        heads = [t for t in results if t.requires_grad and not t.is_complex()]
        if self.backward and heads and leaves:
            loss = sum((t.sum() for t in heads[1:]), heads[0].sum())
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            results += [g for g in gradients if g is not None]
        if device.type != "cpu":
            torch.accelerator.synchronize()  # raises what a kernel found wrong
        return results

    def difference(
        self, expected: list[torch.Tensor], number: int, got: torch.Tensor, values: str
    ) -> str | None:
        """How a result differs from what is expected."""
        want = expected[number]
        if want.shape != got.shape or want.dtype != got.dtype:
            if self.op.full_name in OTHER_STATISTICS and 0 < number < self.forward_results:
                return None
            return f"{got.dtype} of {tuple(got.shape)} instead of {want.dtype}, {tuple(want.shape)}"
        forward = number < self.forward_results
        if forward and significant_strides(want) != significant_strides(got):
            return f"strides {got.stride()} instead of {want.stride()}"
        if values == "undefined" or (difference := value_difference(want, got)) is None:
            return None
        again = tie_check(ties_of(self.op, self.sample), backward=not forward)
        if again is not None and again(number, want, got) is None:
            return None
        if (tolerance := _HALVES.get(want.dtype)) is not None:
            plain = got.detach().cpu().float()
            if torch.allclose(want.float(), plain, tolerance, tolerance, equal_nan=True):
                return None
        if values == "equal" and (want.dtype.is_floating_point or want.dtype.is_complex):
            with contextlib.suppress(Exception):
                if as_exact_as(want, got, self.on(CPU, exact=True)[number]):
                    return None
        return difference


def check_sample(
    op: OpInfo, sample: SampleInput, device: torch.device, backward: bool, dynamic: bool
) -> str:
    """How a compiled sample differs; "" if it does not, NOT_RUNNABLE if it cannot be compared."""
    run, values = Run(op, sample, backward), nature(op, sample).values
    try:
        expected = run.on(device if values == "random" else CPU)
    except Exception:
        return NOT_RUNNABLE
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *a, **k: op.op(x, *a, **k), dynamic=dynamic or None)
    try:
        actual = run.on(device, compiled)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        return f"{type(error).__name__}: {lines[0][:200]}"
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for number, got in enumerate(actual):
        if difference := run.difference(expected, number, got, values):
            return difference
    return ""


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    logging.disable(logging.CRITICAL)
    for name, dynamic in CHECKS.items():
        if not dynamic or dtype in COMPILED_DYNAMIC_DTYPES:
            check_entry(operator(entry), getattr(torch, dtype), device, result, limits, name)


def check_entry(
    op: OpInfo,
    dtype: torch.dtype,
    device: torch.device,
    result: EntryResult,
    limits: Limits,
    check: str = "compiled",
) -> None:
    """Runs the first samples; a note says where Inductor's code for CPU is wrong, too."""
    if not result.wants(check):
        return
    torch.manual_seed(0)
    backward = dtype.is_floating_point and op.supports_autograd
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    result.available = max(result.available, len(samples))
    chosen = list(enumerate(samples))[: limits.most or SAMPLES]
    reasons = reasons_of(op, chosen, device, backward, result, check)
    if backward and set(reasons.values()) == {NOT_RUNNABLE}:
        # CPU has no gradient in this dtype, or no operator.
        backward = False
        reasons = reasons_of(op, chosen, device, backward, result, check)
    exclusions = exclusions_for(op.full_name, str(dtype).removeprefix("torch."), "", "device")
    for number, reason in reasons.items():
        if reason == NOT_RUNNABLE:
            continue
        if any(e.hides(name, reason) for e in exclusions for name in ("forward", "backward")):
            continue  # errors of eager CPU do not count against the device
        # Inductor's backend for CPU draws other numbers than eager mode.
        if (
            reason
            and nature(op, samples[number]).values != "random"
            and check_sample(op, samples[number], CPU, backward, CHECKS[check])
        ):
            result.notes.append(f"{check}: {LIKE_CPU}: {reason}")
            continue
        result.samples += 1
        result.add(check, number, reason)


def reasons_of(
    op: OpInfo,
    samples: list[tuple[int, SampleInput]],
    device: torch.device,
    backward: bool,
    result: EntryResult,
    check: str,
) -> dict[int, str]:
    """Of each sample, by its number, what `check_sample` says."""
    return {
        number: check_sample(op, sample, device, backward, CHECKS[check])
        for number, sample in samples
        if result.begins(check, number)
    }
