"""Calls of samples on CPU and on a device, and properties of what they return."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_outboard.scoreboard.comparison.differences import first_line, tensors_in
from torch_outboard.scoreboard.comparison.transplant import Transplant

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

CPU = torch.device("cpu")
# Dtypes of the reference results that bound roundings.
EXACT = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
RESIZE_WARNING = "An output with one or more elements was resized"

# Entries whose results hold whatever was in memory.
UNDEFINED_VALUES = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)

# Entries whose tensor arguments after the first stay on CPU on every device, because the host reads
# them to know the shapes of the results.
HOST_ARGUMENTS = frozenset({"tensor_split"})


@dataclass
class Call:
    """Arguments on one device."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]
    device: torch.device

    def of(self, function: Callable[..., Any]) -> Any:
        # A factory whose sample names no device takes the default one.
        with contextlib.nullcontext() if self.tensors else self.device:
            value = function(self.input, *self.args, **self.kwargs)
        if self.device.type != "cpu":
            torch.accelerator.synchronize()  # raises what a device kernel found wrong
        return value


@dataclass
class Outcome:
    """The result or error of a call, its number of warnings, and whether of a resized output."""

    value: Any = None
    error: Exception | None = None
    warnings: int = 0
    resized: bool = False


def prepare(
    op: OpInfo, sample: SampleInput, device: torch.device, requires_grad: bool = False
) -> Call:
    move = Transplant(device, requires_grad)
    first = move(sample.input)
    rest = Transplant(CPU, requires_grad) if op.name in HOST_ARGUMENTS else move
    args, kwargs = rest((tuple(sample.args), dict(sample.kwargs)))
    return Call(first, args, kwargs, move.tensors, device)


def in_float64(sample: SampleInput, requires_grad: bool = False) -> Call:
    move = Transplant(CPU, requires_grad, dtypes=EXACT)
    first, args, kwargs = move((sample.input, tuple(sample.args), dict(sample.kwargs)))
    return Call(first, args, kwargs, move.tensors, CPU)


def exactly(op: OpInfo, sample: SampleInput) -> Callable[[], Any]:
    """The call on CPU in float64; None if it raises."""

    def compute() -> Any:
        call = in_float64(sample)
        # Integers become floating-point numbers of the default dtype in many operators.
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return attempt(lambda: call.of(op.op)).value
        finally:
            torch.set_default_dtype(default)

    return compute


def attempt(function: Callable[[], Any]) -> Outcome:
    """Runs on fresh random numbers of the same seed."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = Outcome(function())
        except Exception as error:
            outcome = Outcome(error=error)
    outcome.warnings = len(caught)
    outcome.resized = any(RESIZE_WARNING in str(warning.message) for warning in caught)
    return outcome


def error_difference(expected: Outcome, actual: Outcome) -> str | None:
    if expected.error is None and actual.error is not None:
        return first_line(actual.error)
    if expected.error is not None and actual.error is None:
        return f"does not raise: CPU's {first_line(expected.error)}"
    if expected.error is not None and type(expected.error) is not type(actual.error):
        assert actual.error is not None
        return f"raises {first_line(actual.error)} and not {first_line(expected.error)}"
    return None


# Operators that only make, move or rename elements.
MOVES = """
_conj _conj_physical _neg_view _reshape_alias _to_copy _unsafe_view alias as_strided cat clone copy
copy_ detach diagonal empty empty_like empty_strided expand fill fill_ flip full full_like gather
index_select lift_fresh narrow new_empty new_empty_strided new_full new_ones new_zeros ones
ones_like permute repeat resize_ roll scalar_tensor select set_ slice split split_with_sizes squeeze
stack t transpose unbind unsqueeze view view_as_complex view_as_real zero_ zeros zeros_like
"""


class Recorder(TorchDispatchMode):
    """Notices operators that draw random numbers, and such whose elements are sums."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = False
        self.sums = False
        self._moves = frozenset(MOVES.split())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        self.sums |= torch.Tag.pointwise not in func.tags and name not in self._moves
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        # Attention may draw, but does not without dropout.
        generators = [torch.default_generator]
        generators += [leaf for leaf in tree_leaves((args, kwargs)) if is_generator(leaf)]
        before = [generator.get_state() for generator in generators]
        try:
            return func(*args, **kwargs)
        finally:
            after = [generator.get_state() for generator in generators]
            self.draws |= not all(map(torch.equal, before, after))


def is_generator(value: Any) -> bool:
    return isinstance(value, torch.Generator)


@dataclass(frozen=True)
class Nature:
    """Properties of a call's results before they are compared.

    Args:
        values: as in `tensor_difference`.
        sums: as in `as_exact_as`.
    """

    values: str
    sums: bool


def nature(op: OpInfo, sample: SampleInput, backward: bool = False) -> Nature:
    """By a call on CPU: it is random if it draws, and it sums if an operator below it may.

    Args:
        backward: the results are the gradients.
    """
    call = prepare(op, sample, CPU, requires_grad=backward)
    recorder = Recorder()
    with warnings.catch_warnings(), contextlib.suppress(Exception), recorder:
        warnings.simplefilter("ignore")
        value = call.of(op.op)
        if backward:
            outputs, inputs = ends(sample, call, value)
            ones = [torch.ones_like(t) for t in outputs]
            torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
    if op.name in UNDEFINED_VALUES:
        return Nature("undefined", recorder.sums)
    return Nature("random" if recorder.draws else "equal", recorder.sums)


def differentiable(tree: Any) -> list[torch.Tensor]:
    return [t for t in tensors_in(tree) if t.requires_grad and t.layout == torch.strided]


def ends(sample: SampleInput, call: Call, value: Any) -> tuple[list[torch.Tensor], ...]:
    """The results that can be differentiated, and the arguments with respect to which."""
    if sample.output_process_fn_grad is not None:
        value = sample.output_process_fn_grad(value)
    return differentiable(value), [t for t in call.tensors if t.requires_grad]


def gradients(op: OpInfo, sample: SampleInput, call: Call, cotangents: list[torch.Tensor]) -> Any:
    """Of the differentiable results with respect to the arguments; fills `cotangents` at first."""
    outputs, inputs = ends(sample, call, call.of(op.op))
    if not outputs or not inputs:
        return None
    if not cotangents:
        cotangents += [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
    moved = [c.to(t.device) for c, t in zip(cotangents, outputs, strict=True)]
    return torch.autograd.grad(outputs, inputs, moved, allow_unused=True)
