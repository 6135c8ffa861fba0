"""Compares shapes, strides and dtypes of results and of gradients, for arguments of every layout.

Each entry of the operator database runs on CPU, on the device and on meta tensors, with the same
arguments laid out in memory by `LAYOUTS`. The checks are `layout`, of results, and
`gradient layout`. The device has to do as CPU does. Where PyTorch's meta function says something
else than CPU, `torch.compile` goes wrong on CPU as well: that is noted, and no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from torch_outboard.scoreboard.comparison.calls import CPU, Outcome, attempt, ends, prepare
from torch_outboard.scoreboard.comparison.differences import (
    first_line,
    significant_strides,
    tree_difference,
)
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import operator

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

SAMPLES = 3  # of an entry
LARGEST = 1 << 16  # elements of an argument: layouts of larger ones show nothing else
# The first that CPU takes.
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
META = torch.device("meta")
CHECKS = ("layout", "gradient layout")


# ---- layouts of arguments


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The last two dimensions in the other order."""
    return tensor.mT.contiguous().mT if tensor.dim() >= 2 else tensor


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Images and volumes; others as they are."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.clone(memory_format=formats.get(tensor.dim(), torch.preserve_format))


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element of the last dimension, from the second on."""
    shape = tensor.shape or (1,)
    memory = tensor.new_zeros((*shape[:-1], 2 * shape[-1] + 1))
    view = memory[..., 1::2] if tensor.dim() else memory[1]
    return view.copy_(tensor)


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    """The first element of the first dimension, repeated."""
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() else tensor


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": torch.Tensor.contiguous,
    "transposed": transposed,
    "channels_last": channels_last,
    "sliced": sliced,
    "expanded": expanded,
}


class LaidOut:
    """Arguments in a layout; `changed` says whether any strides became others than contiguous.

    Args:
        first: only the first tensor gets it, and the others become contiguous.
    """

    def __init__(self, layout: str, first: bool) -> None:
        self.layout = layout
        self.first = first
        self.changed = layout == "contiguous"
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, tree: Any) -> Any:
        return tree_map(self._leaf, tree)

    def _leaf(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not is_plain(value):
            return value
        if id(value) not in self._made:
            layout = "contiguous" if self.first and self._made else self.layout
            plain = value.detach()
            made = LAYOUTS[layout](plain)
            self.changed |= significant_strides(made) != significant_strides(plain.contiguous())
            # A new one: a leaf that an optimizer or an in-place operator may not change twice.
            made = made.clone() if made is plain else made
            self._made[id(value)] = (value, made.requires_grad_(value.requires_grad))
        return self._made[id(value)][1]


def is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout == torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_meta)
        and not (tensor.is_conj() or tensor.is_neg())
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


def laid_out(sample: SampleInput) -> Iterator[tuple[str, SampleInput]]:
    """The sample in every layout that makes a difference to it, with a name."""
    from torch.testing._internal.opinfo.core import SampleInput

    for layout in LAYOUTS:
        for first in (False, True) if layout in ("transposed", "channels_last") else (False,):
            change = LaidOut(layout, first)
            try:
                given, args, kwargs = change((sample.input, tuple(sample.args), sample.kwargs))
            except RuntimeError:
                continue  # no memory of this layout for a dtype
            if change.changed and not (first and len(change._made) < 2):
                made = SampleInput(given, args=args, kwargs=dict(kwargs))
                made.output_process_fn_grad = sample.output_process_fn_grad
                yield f"{layout} first" if first else layout, made


# ---- calls


def cotangent(output: torch.Tensor, layout: str) -> torch.Tensor:
    """As `sum().backward()` makes it for expanded arguments, else in the layout of the output."""
    if layout == "expanded":
        return torch.ones((), dtype=output.dtype, device=output.device).expand(output.shape)
    return torch.ones_like(output)


def results_and_gradients(
    op: OpInfo, sample: SampleInput, device: torch.device, layout: str, backward: bool
) -> tuple[Outcome, Outcome]:
    """The second is of None where there is nothing to differentiate, or no result."""
    made = attempt(lambda: prepare(op, sample, device, requires_grad=backward))
    if made.error is not None:
        return made, Outcome()
    call = made.value
    results = attempt(lambda: call.of(op.op))
    if results.error is not None or not backward:
        return results, Outcome()

    def differentiate() -> Any:
        outputs, inputs = ends(sample, call, results.value)
        if not outputs or not inputs:
            return None
        given = [cotangent(output, layout) for output in outputs]
        gradients = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        if device.type not in ("cpu", "meta"):
            torch.accelerator.synchronize()
        return gradients

    return results, attempt(differentiate)


def difference(expected: Outcome, actual: Outcome, device: torch.device) -> str | None:
    """Of what CPU and another device returned, without the values."""
    if actual.error is not None:
        return first_line(actual.error)
    return tree_difference(expected.value, actual.value, device, values="undefined")


def dtype_of(op: OpInfo) -> torch.dtype | None:
    return next((dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")), None)


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    """Both checks of an entry; `samples` counts the calls that CPU could run."""
    check_layouts(operator(entry), device, result, limits)


def check_layouts(op: OpInfo, device: torch.device, result: EntryResult, limits: Limits) -> None:
    dtype = dtype_of(op)
    if dtype is None:
        return
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    result.available = len(samples)
    noted: set[str] = set()
    for number, sample in limits.of(samples, SAMPLES):
        tensors = [t for t in tree_leaves_of(sample) if isinstance(t, torch.Tensor)]
        if any(t.layout == torch.strided and t.numel() > LARGEST for t in tensors):
            continue
        for layout, given in laid_out(sample):
            if not result.begins(CHECKS[0], number, layout, also=CHECKS[1:]):
                continue
            differentiated = backward and result.begins(CHECKS[1], number, layout)
            by_location = [
                results_and_gradients(op, given, location, layout, differentiated)
                for location in (CPU, device, META)
            ]
            result.samples += by_location[0][0].error is None
            for check, outcomes in zip(CHECKS, zip(*by_location, strict=True), strict=True):
                if not compare(check, number, layout, outcomes, device, result, noted):
                    break
    result.notes = sorted(noted)


def compare(
    check: str,
    number: int,
    layout: str,
    outcomes: tuple[Outcome, ...],
    device: torch.device,
    result: EntryResult,
    noted: set[str],
) -> bool:
    """Whether the gradients can be compared after the results."""
    on_cpu, on_device, on_meta = outcomes
    if on_cpu.error is not None:
        return False  # what CPU refuses is no question of layouts
    if on_cpu.value is None:
        return True  # nothing to differentiate
    reason = difference(on_cpu, on_device, device)
    result.add(check, number, reason and f"{layout}: {reason}")
    # Meta tensors refuse shapes that depend on values, and more that CPU can do.
    if on_meta.error is not None:
        return False
    if said := difference(on_cpu, on_meta, META):
        noted.add(f"{check}, {layout}: {said}")
    return True


def tree_leaves_of(sample: SampleInput) -> list[Any]:
    return torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
