"""The device refuses CPU's refusals: wrong arguments, and dtypes without a kernel.

Two checks of an entry of the operator database, whatever the dtype:

- errors: its `error_inputs` raise the same type on the device as on CPU, with a message that the
  database's pattern finds where it finds CPU's
- dtypes: samples of every dtype run on the device exactly where they run on CPU; the same with
  their gradients in `backward dtypes`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    attempt,
    error_difference,
    gradients,
    prepare,
)
from torch_outboard.scoreboard.comparison.differences import first_line
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import operator

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128,
)  # fmt: skip
# Of an entry and dtype: refusing does not depend on much else.
SAMPLES = 4


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    """All checks of an entry; `samples` counts calls."""
    check_errors(operator(entry), device, result)
    check_dtypes(operator(entry), device, DTYPES, result, limits)
    result.available = result.samples


def error_inputs(op: OpInfo) -> list[ErrorInput]:
    if op.error_inputs_func is None:
        return []
    torch.manual_seed(0)
    return list(op.error_inputs("cpu"))


def check_errors(op: OpInfo, device: torch.device, result: EntryResult) -> None:
    for number, error_input in enumerate(error_inputs(op)):
        sample = error_input.sample_input
        if not result.begins("errors", number):
            continue
        try:
            on_cpu, on_device = prepare(op, sample, CPU), prepare(op, sample, device)
        except Exception as error:
            result.add("errors", number, f"moving the arguments: {first_line(error)}")
            continue
        result.samples += 1
        expected = attempt(partial(on_cpu.of, op.op))
        actual = attempt(partial(on_device.of, op.op))
        difference = error_difference(expected, actual)
        if difference is None and expected.error is not None and actual.error is not None:
            pattern = str(error_input.error_regex)
            if (
                re.search(pattern, str(expected.error))
                and not re.search(pattern, str(actual.error))
                and "ran on" not in str(actual.error)
            ):  # raised by a later wait, in words of its own
                difference = f"says {first_line(actual.error)} and not {first_line(expected.error)}"
        result.add("errors", number, difference)


def samples_of(
    op: OpInfo, dtype: torch.dtype, requires_grad: bool, limits: Limits
) -> Iterator[tuple[int, SampleInput]]:
    """Few of the samples; none where they cannot be made of the dtype."""
    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    except Exception:
        return
    yield from limits.of(samples, SAMPLES)


def check_dtypes(
    op: OpInfo,
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
    result: EntryResult,
    limits: Limits,
) -> None:
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        for number, sample in samples_of(op, dtype, False, limits):
            if not result.begins("dtypes", number, name):
                continue
            result.samples += 1
            result.add(
                "dtypes", number, dtype_difference(op, sample, dtype, device, backward=False)
            )
        differentiable = dtype.is_floating_point or dtype.is_complex
        if not (op.supports_autograd and differentiable):
            continue
        for number, sample in samples_of(op, dtype, True, limits):
            if not result.begins("backward dtypes", number, name):
                continue
            difference = dtype_difference(op, sample, dtype, device, backward=True)
            result.add("backward dtypes", number, difference)


def dtype_difference(
    op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: torch.device, backward: bool
) -> str | None:
    """The difference between refusals of CPU and of the device."""
    outcomes = []
    cotangents: list[torch.Tensor] = []
    for location in (CPU, device):
        try:
            call = prepare(op, sample, location, requires_grad=backward)
        except Exception as error:
            return f"{dtype}: moving the arguments: {first_line(error)}"

        def compute(call: Any = call) -> Any:
            return gradients(op, sample, call, cotangents) if backward else call.of(op.op)

        outcomes.append(attempt(compute))
        if backward and outcomes[-1].error is None and not cotangents:
            return None  # nothing to differentiate
    difference = error_difference(*outcomes)
    return difference and f"{str(dtype).removeprefix('torch.')}: {difference}"
