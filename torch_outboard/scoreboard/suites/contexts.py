"""The operators in contexts that change what they do.

- fake: under `FakeTensorMode`, which knows shapes, dtypes and strides, as the device returns them;
  torch.compile plans by these
- autocast: in bfloat16, without an error, near the result in float32, and in the dtype that
  PyTorch's lists for CUDA give
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    Outcome,
    attempt,
    nature,
    prepare,
)
from torch_outboard.scoreboard.comparison.differences import (
    first_line,
    significant_strides,
    tensors_in,
    to_plain_cpu,
)
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import by_name, samples_of

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

FAKES, AUTOCASTS = 6, 3  # samples of an entry
LOW = torch.bfloat16
# Of an element, and of the largest element for sums that cancel: some units of bfloat16.
TOLERANCE = 0.05


def check_entry(
    op: OpInfo, dtype: torch.dtype, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    samples = samples_of(op, dtype, result)
    for number, sample in limits.of(samples, FAKES):
        if result.begins("fake", number):
            check_fake(op, sample, number, device, result)
    if dtype != torch.float32 or device.type == "cpu":
        return
    for number, sample in limits.of(samples, AUTOCASTS):
        if result.begins("autocast", number):
            check_autocast(op, sample, number, device, result)


check = by_name(check_entry)


# ---- fake tensors -------------------------------------------------------------------------------


def check_fake(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    on_cpu, fake_on_cpu = outcomes(op, sample, CPU)
    if on_cpu.error is not None or fake_on_cpu.error is not None:
        return  # shapes that depend on values, and layouts that are never faked
    result.samples += 1
    on_device, fake = outcomes(op, sample, device)
    if on_device.error is not None:
        return  # that is for the suite `operators`
    if fake.error is not None:
        result.add("fake", number, first_line(fake.error))
        return
    difference = described_otherwise(on_device.value, fake.value)
    # Where PyTorch describes CPU wrongly the device does not count.
    if difference and (of_cpu := described_otherwise(on_cpu.value, fake_on_cpu.value)):
        result.notes.append(f"fake: {of_cpu}")
        difference = None
    result.add("fake", number, difference)


def outcomes(op: OpInfo, sample: SampleInput, location: torch.device) -> tuple[Outcome, Outcome]:
    """A call, and the same with fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def faked() -> Any:
        call = prepare(op, sample, location)
        mode = FakeTensorMode()
        arguments = (call.input, call.args, call.kwargs)
        first, args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, arguments)
        with mode, location if not call.tensors else mode:
            return op.op(first, *args, **kwargs)

    return attempt(lambda: prepare(op, sample, location).of(op.op)), attempt(faked)


def described_otherwise(real: Any, fake: Any) -> str | None:
    reals, fakes = tree_leaves(real), tree_leaves(fake)
    if len(reals) != len(fakes):
        return f"{len(fakes)} fake results instead of {len(reals)}"
    for number, (want, got) in enumerate(zip(reals, fakes, strict=True)):
        if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
            continue
        for name in ("dtype", "layout"):
            if getattr(want, name) != getattr(got, name):
                return f"result {number}: fake {name} is {getattr(got, name)}, real is " + str(
                    getattr(want, name)
                )
        if want.device.type != got.device.type:
            return f"result {number}: fake device is {got.device}, real is {want.device}"
        if want.layout != torch.strided or want.is_nested:
            continue
        if tuple(want.shape) != tuple(got.shape):
            return f"result {number}: fake shape is {tuple(got.shape)}, real is {tuple(want.shape)}"
        if significant_strides(want) != significant_strides(got):
            return f"result {number}: fake strides are {got.stride()}, real are {want.stride()}"
    return None


# ---- autocast -----------------------------------------------------------------------------------


def check_autocast(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    expected = attempt(lambda: prepare(op, sample, CPU).of(op.op))
    if expected.error is not None:
        return
    plain = attempt(lambda: prepare(op, sample, device).of(op.op))
    if plain.error is not None:
        return  # that is for the suite `operators`
    result.samples += 1

    def cast() -> Any:
        call = prepare(op, sample, device)
        with torch.autocast(device.type, LOW):
            return call.of(op.op)

    actual = attempt(cast)
    if actual.error is not None:
        result.add("autocast", number, first_line(actual.error))
        return
    compare_values = nature(op, sample).values == "equal"
    differences = (
        cast_difference(op.name, want, got, compare_values)
        for want, got in zip(tensors_in(expected.value), tensors_in(actual.value), strict=False)
    )
    result.add("autocast", number, next(filter(None, differences), None))


def cast_difference(
    name: str, want: torch.Tensor, got: torch.Tensor, compare_values: bool
) -> str | None:
    if not want.dtype.is_floating_point or want.layout != torch.strided or want.is_nested:
        return None
    by_list = dtype_by_list(name)
    allowed = (by_list,) if by_list is not None else (torch.float32, LOW)
    if got.dtype not in allowed and got.dtype != want.dtype:
        return f"dtype is {got.dtype} and not {' or '.join(map(str, allowed))}"
    if not compare_values or want.numel() == 0:
        return None
    want, got = to_plain_cpu(want).double(), to_plain_cpu(got).double()
    if want.shape != got.shape:
        return f"shape is {tuple(got.shape)} and not {tuple(want.shape)}"
    finite = want.isfinite() & got.isfinite()
    if not finite.any():
        return None
    size = want[finite].abs()
    error = (want - got)[finite].abs()
    granted = TOLERANCE * (size + size.max())
    if (error > granted).any():
        return f"values: off by {float((error / granted).max() * TOLERANCE):.3f} of the largest"
    return None


@cache
def _lists() -> dict[str, torch.dtype]:
    from torch.testing._internal.autocast_test_lists import AutocastTestLists

    lists = AutocastTestLists("cpu")
    found: dict[str, torch.dtype] = {}
    for dtype, name in ((LOW, "torch_fp16"), (torch.float32, "torch_fp32")):
        for row in getattr(lists, name):
            found[row[0]] = dtype
    return found


def dtype_by_list(name: str) -> torch.dtype | None:
    """Of results in autocast, for operators that PyTorch tests so for CUDA."""
    return _lists().get(name)
