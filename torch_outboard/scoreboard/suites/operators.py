"""Checks of one entry of PyTorch's operator database on one dtype.

Everything runs twice: on CPU, which says what is right, and on the device. A check that CPU itself
cannot do is left out; where CPU raises, the device has to raise the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    EXACT,
    Call,
    Nature,
    attempt,
    error_difference,
    exactly,
    gradients,
    in_float64,
    nature,
    prepare,
)
from torch_outboard.scoreboard.comparison.differences import (
    aliasing,
    as_exact_as,
    first_line,
    significant_strides,
    tensor_difference,
    tensors_in,
    tree_difference,
    value_difference,
)
from torch_outboard.scoreboard.comparison.order_statistics import tie_check, ties_of
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import by_name, samples_of
from torch_outboard.scoreboard.suites.outputs import OUTS, gaps_of, strided_out

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput


def check_entry(
    op: OpInfo,
    dtype: torch.dtype,
    device: torch.device,
    limits: Limits | None = None,
    result: EntryResult | None = None,
) -> EntryResult:
    """Runs every check of an entry that CPU can do; `samples` is 0 if CPU can do none."""
    limits = limits or Limits()
    result = result or EntryResult()
    samples = samples_of(op, dtype, result)
    for number, sample in limits.of(samples, limits.forward):
        if result.begins("forward", number, also=("aliasing", "mutation")):
            check_forward(op, sample, number, device, result)
    for number, sample in limits.of(samples, limits.variants):
        if result.begins("inplace", number):
            check_inplace(op, sample, number, device, result)
        if result.begins("out", number):
            check_out(op, sample, number, device, result)
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        torch.manual_seed(0)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=True))
        for number, sample in limits.of(samples, limits.backward):
            if result.begins("backward", number):
                check_backward(op, sample, number, device, result)
    return result


check = by_name(check_entry)


@dataclass
class Pair:
    """A call that CPU and the device returned from."""

    on_cpu: Call
    expected: Any
    on_device: Call
    actual: Any
    known: Nature


def run_both(
    op: OpInfo,
    sample: SampleInput,
    number: int,
    device: torch.device,
    result: EntryResult,
    check: str,
    function: Callable[..., Any],
) -> Pair | None:
    """Calls a function of the entry on CPU and on the device; None if one of them raises."""
    on_cpu = prepare(op, sample, CPU)
    expected = attempt(lambda: on_cpu.of(function))
    result.samples += check != "inplace" and expected.error is None
    try:
        on_device = prepare(op, sample, device)
    except Exception as error:
        result.add(check, number, f"moving the arguments: {first_line(error)}")
        return None
    actual = attempt(lambda: on_device.of(function))
    pair = Pair(on_cpu, expected.value, on_device, actual.value, nature(op, sample))
    if expected.error is None and actual.error is None:
        return pair
    result.add(check, number, error_difference(expected, actual))
    if expected.error is not None and actual.error is not None and check == "forward":
        compare_arguments(pair, device, number, result)
    return None


def check_call(
    op: OpInfo,
    sample: SampleInput,
    number: int,
    device: torch.device,
    result: EntryResult,
    check: str,
) -> Pair | None:
    """Structure, dtypes, strides and values of the results; None if one of the calls raises."""
    pair = run_both(op, sample, number, device, result, check, op.op)
    if pair is None:
        return None
    difference = tree_difference(
        pair.expected,
        pair.actual,
        device,
        exactly(op, sample),
        values=pair.known.values,
        sums=pair.known.sums,
        again=tie_check(ties_of(op, sample)),
    )
    result.add(check, number, difference)
    return pair


def check_forward(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    """Values, dtype, strides, aliasing, and what happened to the arguments."""
    pair = check_call(op, sample, number, device, result, "forward")
    if pair is None:
        return
    want = aliasing(pair.expected, pair.on_cpu.tensors)
    got = aliasing(pair.actual, pair.on_device.tensors)
    same = want == got
    result.add("aliasing", number, None if same else f"relations are {got} and not {want}")
    compare_arguments(pair, device, number, result)


def compare_arguments(
    pair: Pair, device: torch.device, number: int, result: EntryResult, check: str = "mutation"
) -> None:
    tensors = zip(pair.on_cpu.tensors, pair.on_device.tensors, strict=True)
    for position, (want, got) in enumerate(tensors):
        difference = tensor_difference(want, got, device, values=pair.known.values)
        result.add(check, number, difference and f"argument {position}: {difference}")


def check_inplace(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    variant = op.get_inplace()
    if variant is None or not isinstance(sample.input, torch.Tensor) or sample.broadcasts_input:
        return
    pair = run_both(op, sample, number, device, result, "inplace", variant)
    if pair is None:
        return
    exact = exactly(op, sample)
    options: dict[str, Any] = {"values": pair.known.values, "sums": pair.known.sums}
    difference = tree_difference(pair.expected, pair.actual, device, exact, **options)
    if (pair.expected is pair.on_cpu.input) != (pair.actual is pair.on_device.input):
        difference = "does not return the tensor that it changes"
    result.add("inplace", number, difference)
    tensors = zip(pair.on_cpu.tensors, pair.on_device.tensors, strict=True)
    for position, (want, got) in enumerate(tensors):
        written = want is pair.expected
        difference = tree_difference(want, got, device, exact if written else None, **options)
        result.add("inplace", number, difference and f"argument {position}: {difference}")


# ---- out= ---------------------------------------------------------------------------------------


def check_out(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    if not op.supports_out:
        return
    plain = attempt(lambda: prepare(op, sample, CPU).of(op.op))
    if plain.error is not None or not is_out_structure(plain.value):
        return
    known = nature(op, sample)
    for kind, make in OUTS.items():
        reason = check_one_out(op, sample, device, plain.value, make, known)
        result.add("out", number, reason and f"{kind} out: {reason}")


def flat(compute: Callable[[], Any]) -> Callable[[], list[torch.Tensor]]:
    return lambda: tensors_in(compute())


def is_out_structure(value: Any) -> bool:
    leaves = [value] if isinstance(value, torch.Tensor) else value
    return isinstance(leaves, (tuple, list)) and all(
        isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in leaves
    )


def check_one_out(
    op: OpInfo,
    sample: SampleInput,
    device: torch.device,
    like: Any,
    make: Callable[[torch.Tensor, torch.device], torch.Tensor],
    known: Nature,
) -> str | None:
    outcomes, outs, starts, calls = [], [], [], []
    for location in (CPU, device):
        try:
            call = prepare(op, sample, location)
            out = tree_map(lambda leaf, location=location: make(leaf, location), like)
        except Exception as error:
            return f"making the arguments: {first_line(error)}"
        starts.append([tensor.data_ptr() for tensor in tensors_in(out)])
        call.kwargs["out"] = out
        outcomes.append(attempt(functools.partial(call.of, op.op)))
        outs.append(tensors_in(out))
        calls.append(call)
    expected, actual = outcomes
    if expected.error is not None or actual.error is not None:
        if difference := error_difference(expected, actual):
            return difference
        return tree_difference(calls[0].tensors, calls[1].tensors, device, values=known.values)
    if make is strided_out and (difference := strided_difference(like, outs[0], outs[1], known)):
        return difference
    if expected.resized != actual.resized:
        return "no warning of the resize" if expected.resized else "a warning of a resize"
    exact = exactly(op, sample)
    if difference := tree_difference(
        outs[0],
        outs[1],
        device,
        flat(exact),
        values=known.values,
        sums=known.sums,
        strides=False,
        again=tie_check(ties_of(op, sample)),
    ):
        return difference
    for want, got, want_start, got_start in zip(*outs, *starts, strict=True):
        if significant_strides(want) != significant_strides(got):
            return f"strides are {got.stride()} and not {want.stride()}"
        if want_start and (want.data_ptr() == want_start) != (got.data_ptr() == got_start):
            return "memory was exchanged" if want.data_ptr() == want_start else "memory was kept"
    returned = [
        [any(leaf is out for out in side) for leaf in tensors_in(outcome.value)]
        for outcome, side in zip(outcomes, outs, strict=True)
    ]
    return None if returned[0] == returned[1] else "does not return the out tensors"


def strided_difference(
    like: Any, on_cpu: list[torch.Tensor], on_device: list[torch.Tensor], known: Nature
) -> str | None:
    """The error of CPU with gaps, or of the device."""
    for plain, want, got in zip(tensors_in(like), on_cpu, on_device, strict=True):
        for location, out in (("CPU", want), ("the device", got)):
            gaps = gaps_of(out)
            if not torch.equal(gaps.isnan() | (gaps == 1), torch.ones_like(gaps, dtype=torch.bool)):
                return f"{location} writes between or behind the elements"
        # Of sums it may take another kernel for other strides, which rounds in another order.
        exact = plain.to(torch.complex128 if plain.is_complex() else torch.float64)
        if (
            known.values == "equal"
            and value_difference(plain, want)
            and not as_exact_as(plain, want, exact, known.sums)
        ):
            return "CPU writes other values than into memory without gaps"
    return None


# ---- backward -----------------------------------------------------------------------------------


def exact_gradients(
    op: OpInfo, sample: SampleInput, cotangents: list[torch.Tensor]
) -> Callable[[], Any]:
    """The gradients on CPU in float64; None if it cannot."""

    def compute() -> Any:
        call = in_float64(sample, requires_grad=True)
        wide = [c.to(EXACT.get(c.dtype, c.dtype)) for c in cotangents]
        return attempt(lambda: gradients(op, sample, call, wide)).value

    return compute


def check_backward(
    op: OpInfo,
    sample: SampleInput,
    number: int,
    device: torch.device,
    result: EntryResult,
    check: str = "backward",
) -> None:
    cotangents: list[torch.Tensor] = []
    on_cpu = prepare(op, sample, CPU, requires_grad=True)
    expected = attempt(lambda: gradients(op, sample, on_cpu, cotangents))
    if expected.error is None and expected.value is None:
        return
    try:
        on_device = prepare(op, sample, device, requires_grad=True)
    except Exception as error:
        result.add(check, number, f"moving the arguments: {first_line(error)}")
        return
    actual = attempt(lambda: gradients(op, sample, on_device, cotangents))
    if expected.error is not None or actual.error is not None:
        result.add(check, number, error_difference(expected, actual))
        return
    known = nature(op, sample, backward=True)
    values = "random sums" if known.values == "random" else known.values
    exact = exact_gradients(op, sample, cotangents)
    difference = tree_difference(
        expected.value,
        actual.value,
        device,
        exact,
        values=values,
        sums=known.sums,
        strides=False,
        again=tie_check(ties_of(op, sample), backward=True),
    )
    result.add(check, number, difference)
