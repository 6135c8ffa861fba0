"""The operators on further inputs.

- reference inputs: those that the database has beside its samples: extremal, large and small
  values, broadcasting, other strides, numbers in place of tensors
- conj view, neg view: tensors whose conjugation or negation is left to the reader
- promotion: tensors of other dtypes beside the first, with and without dimensions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_outboard.scoreboard.comparison.calls import CPU, attempt, prepare
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import by_name, samples_of
from torch_outboard.scoreboard.suites.operators import check_call

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

REFERENCES, VIEWS, PROMOTIONS = 24, 6, 3  # samples of an entry
# Dtypes beside which the first tensor stands.
OTHERS = {
    torch.float32: (torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64),
    torch.int64: (torch.int32, torch.float32, torch.uint8, torch.bool),
    torch.bool: (torch.int64, torch.float32),
    torch.complex64: (torch.float64, torch.int64),
}


def check_entry(
    op: OpInfo, dtype: torch.dtype, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    if op.reference_inputs_func is not None and result.wants("reference inputs"):
        torch.manual_seed(0)
        references = list(op.reference_inputs("cpu", dtype, requires_grad=False))
        for number, sample in limits.of(references, REFERENCES):
            # What has only numbers names no device.
            if tensors_of(sample) and result.begins("reference inputs", number):
                check_call(op, sample, number, device, result, "reference inputs")
    samples = samples_of(op, dtype, result)
    for name, make in (("conj view", conjugated), ("neg view", negated)):
        if name == "conj view" and not dtype.is_complex:
            continue
        if dtype.is_complex or dtype.is_floating_point:
            for number, sample in limits.of(samples, VIEWS):
                if result.begins(name, number):
                    check_where_cpu_runs(op, viewed(sample, make), number, device, result, name)
    for number, sample in limits.of(samples, PROMOTIONS):
        for label, mixed in promoted(sample, dtype):
            if result.begins("promotion", number, label):
                check_where_cpu_runs(op, mixed, number, device, result, "promotion")


check = by_name(check_entry)


def check_where_cpu_runs(
    op: OpInfo,
    sample: SampleInput,
    number: int,
    device: torch.device,
    result: EntryResult,
    check: str,
) -> None:
    """What CPU refuses here says nothing: its kernels differ in what they take."""
    if attempt(lambda: prepare(op, sample, CPU).of(op.op)).error is None:
        check_call(op, sample, number, device, result, check)


def tensors_of(sample: SampleInput) -> list[torch.Tensor]:
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def conjugated(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, as the conjugate of others."""
    return tensor.conj_physical().conj() if tensor.is_complex() else tensor


def negated(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, as the negative of others."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return torch._neg_view(tensor.neg())
    return tensor


def replaced(sample: SampleInput, change: Callable[[torch.Tensor], torch.Tensor]) -> SampleInput:
    """The sample with other tensors; what is one tensor stays one."""
    from torch.testing._internal.opinfo.core import SampleInput

    made: dict[int, torch.Tensor] = {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            made[id(value)] = change(value)
        return made[id(value)]

    given, args, kwargs = tree_map(leaf, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    new = SampleInput(given, args=args, kwargs=kwargs)
    new.output_process_fn_grad = sample.output_process_fn_grad
    new.broadcasts_input = sample.broadcasts_input
    return new


def viewed(sample: SampleInput, view: Callable[[torch.Tensor], torch.Tensor]) -> SampleInput:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
        return view(tensor.detach()) if plain else tensor

    return replaced(sample, change)


def exchanged(old: torch.Tensor, new: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return new if tensor is old else tensor


def promoted(sample: SampleInput, dtype: torch.dtype) -> Iterator[tuple[str, SampleInput]]:
    """The sample with its second tensor in other dtypes; none where there is no second."""
    tensors = [t for t in tensors_of(sample) if t.dtype == dtype]
    distinct = list({id(t): t for t in tensors}.values())
    if len(distinct) < 2 or distinct[1].layout != torch.strided:
        return
    second = distinct[1]
    for other in OTHERS.get(dtype, ()):
        name = str(other).removeprefix("torch.")
        converted = second.detach().to(other)
        yield f"with {name}", replaced(sample, partial(exchanged, second, converted))
        if second.dim() and second.numel():
            number = converted.reshape(-1)[0]
            words = f"with a number of {name}"
            yield words, replaced(sample, partial(exchanged, second, number))
