"""Checks of one entry of PyTorch's operator database on one dtype.

Everything runs twice: on CPU, which says what is right, and on the device. A check that CPU itself
cannot do is left out; where CPU raises, the device has to raise the same.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.opinfo.comparison import (
    aliasing,
    as_exact_as,
    first_line,
    significant_strides,
    tensor_difference,
    tensors_in,
    tree_difference,
    value_difference,
)
from tests.opinfo.order_statistics import tie_check, ties_of
from tests.opinfo.outputs import OUTS, gaps_of, strided_out
from tests.opinfo.transplant import Transplant

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


@dataclass(frozen=True)
class Failure:
    check: str
    sample: int
    reason: str


@dataclass
class Limits:
    """How many samples of an entry are looked at, spread evenly over all of them.

    With a `turn` each check looks at one of these alone, another one for the next number.
    """

    forward: int = 60
    variants: int = 8
    backward: int = 12
    turn: int | None = None

    def of(self, samples: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
        """Those that a check looks at, with their numbers."""
        chosen = list(spread(samples, count))
        if self.turn is not None and chosen:
            chosen = [chosen[self.turn % len(chosen)]]
        return iter(chosen)


@dataclass
class EntryResult:
    """The findings of the checks of an entry.

    Args:
        samples: how many samples CPU could run.
        available: how many the database has.
        notes: what is worth knowing about PyTorch and no failure.
        warned_otherwise: calls that warned more or less often than on CPU, where that is counted.
    """

    samples: int = 0
    available: int = 0
    warned_otherwise: int = 0
    checks: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, check: str, sample: int, reason: str | None) -> None:
        """Records a check of a sample; every failure counts, since an exclusion may hide others."""
        self.checks.add(check)
        if reason:
            self.failures.append(Failure(check, sample, reason))


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
        super().__init__()
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


def spread(samples: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
    """At most `count` of the samples with their numbers, evenly spread."""
    stride = max(1, -(-len(samples) // count)) if count else len(samples) + 1
    yield from list(enumerate(samples))[::stride]


def check_entry(
    op: OpInfo,
    dtype: torch.dtype,
    device: torch.device,
    limits: Limits | None = None,
    backward: bool = True,
) -> EntryResult:
    """Runs every check of an entry that CPU can do; `samples` is 0 if CPU can do none."""
    limits = limits or Limits()
    result = EntryResult()
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    result.available = len(samples)
    for number, sample in limits.of(samples, limits.forward):
        check_forward(op, sample, number, device, result)
    for number, sample in limits.of(samples, limits.variants):
        check_inplace(op, sample, number, device, result)
        check_out(op, sample, number, device, result)
    if backward and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        torch.manual_seed(0)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=True))
        for number, sample in limits.of(samples, limits.backward):
            check_backward(op, sample, number, device, result)
    return result


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
    result.samples += check == "forward" and expected.error is None
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
    if expected.error is not None and actual.error is not None:
        compare_arguments(pair, device, number, result)
    return None


def check_forward(
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    """Values, dtype, strides, aliasing, and what happened to the arguments."""
    pair = run_both(op, sample, number, device, result, "forward", op.op)
    if pair is None:
        return
    difference = tree_difference(
        pair.expected,
        pair.actual,
        device,
        exactly(op, sample),
        values=pair.known.values,
        sums=pair.known.sums,
        again=tie_check(ties_of(op, sample)),
    )
    result.add("forward", number, difference)
    want = aliasing(pair.expected, pair.on_cpu.tensors)
    got = aliasing(pair.actual, pair.on_device.tensors)
    same = want == got
    result.add("aliasing", number, None if same else f"relations are {got} and not {want}")
    compare_arguments(pair, device, number, result)


def compare_arguments(pair: Pair, device: torch.device, number: int, result: EntryResult) -> None:
    tensors = zip(pair.on_cpu.tensors, pair.on_device.tensors, strict=True)
    for position, (want, got) in enumerate(tensors):
        difference = tensor_difference(want, got, device, values=pair.known.values)
        result.add("mutation", number, difference and f"argument {position}: {difference}")


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
    if make is strided_out and (difference := strided_difference(like, *outs, known)):
        return difference
    if expected.resized != actual.resized:
        return "no warning of the resize" if expected.resized else "a warning of a resize"
    exact = exactly(op, sample)
    if difference := tree_difference(
        *outs,
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
    op: OpInfo, sample: SampleInput, number: int, device: torch.device, result: EntryResult
) -> None:
    cotangents: list[torch.Tensor] = []
    on_cpu = prepare(op, sample, CPU, requires_grad=True)
    expected = attempt(lambda: gradients(op, sample, on_cpu, cotangents))
    if expected.error is None and expected.value is None:
        return
    try:
        on_device = prepare(op, sample, device, requires_grad=True)
    except Exception as error:
        result.add("backward", number, f"moving the arguments: {first_line(error)}")
        return
    actual = attempt(lambda: gradients(op, sample, on_device, cotangents))
    if expected.error is not None or actual.error is not None:
        result.add("backward", number, error_difference(expected, actual))
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
    result.add("backward", number, difference)
