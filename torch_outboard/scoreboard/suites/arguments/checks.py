"""Checks of one overload: every variation gives CPU's results on the device."""

import contextlib
import math
import re
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    EXACT,
    UNDEFINED_VALUES,
    Outcome,
    attempt,
    error_difference,
)
from torch_outboard.scoreboard.comparison.differences import first_line, tensors_in, tree_difference
from torch_outboard.scoreboard.comparison.order_statistics import RULES, tie_check, ties_of
from torch_outboard.scoreboard.comparison.transplant import Transplant
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.arguments.calls import (
    ArgumentsCall,
    base_name,
    calls_of,
    reached,
    run,
)
from torch_outboard.scoreboard.suites.arguments.isolated import CpuRun, is_defined, run_each
from torch_outboard.scoreboard.suites.arguments.variations import REVERSED, Variation, variations

# Their meta functions compute powers of 10 with as many digits, and do not end.
NO_META = frozenset({"round"})
LARGEST_RESULT = 100 << 20  # bytes; calls with larger ones are left out
SECONDS_ON_DEVICE = 90  # for one call, which may have to compile
NO_MEMORY = re.compile(
    "can't allocate memory|not enough memory|Storage size calculation overflow|out of memory"
    "|allocate [0-9.]+ .iB|cannot allocate"
)
# Errors of CPU's kernels that fail inside, or cannot read a layout that the device's can.
LIMITS_OF_CPU = re.compile(
    "INTERNAL ASSERT FAILED|could not create a primitive|itensor_view_from_dense"
    "|contiguous|elements? must have stride|tensor does not have a device|uninitialized"
)
# Arguments that may be on the host beside tensors of the device, as for CUDA; of operators without
# names, all.
LENGTHS = frozenset({"targets", "input_lengths", "target_lengths"})
SEGMENTS = frozenset({"lengths", "offsets", "indices"})
TAKES_HOST_TENSORS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("copy", "to_copy"), frozenset()),
    "bernoulli": frozenset({"self", "p"}),
    **dict.fromkeys(("index", "index_put", "index_put_impl"), frozenset({"indices"})),
    **dict.fromkeys(("ctc_loss", "ctc_loss_backward"), LENGTHS),
    **dict.fromkeys(("segment_reduce", "segment_reduce_backward"), SEGMENTS),
}


def entries(dtype: str) -> list[str]:
    """Overloads of the operator tables that have a call."""
    return list(reached())


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    check_arguments(entry, device, result)


def check_arguments(overload: str, device: torch.device, result: EntryResult) -> None:
    """Runs every variation of the overload's calls."""
    for position, call in enumerate(calls_of(overload)):
        chosen = []
        for number, variation in enumerate(variations(call, numbers_only=position > 0)):
            result.available += 1
            sample = number + 1000 * position
            if not result.wants(variation.check):
                continue
            if not result.leaves_out(variation.check, sample, variation.label):
                if not too_large(variation.call):
                    chosen.append((sample, variation))
            else:
                result.withheld.add(variation.check)
        on_cpu = run_each([call, *(variation.call for _, variation in chosen)])
        as_recorded = next(on_cpu)
        for (sample, variation), expected in zip(chosen, on_cpu, strict=True):
            result.samples += 1
            result.mark(variation.check, sample, variation.label)
            difference: str | None = None
            reason: str | None = expected.without
            if expected.outcome is not None:
                difference = check_variation(variation, expected, device, result)
                reason = difference and unusable(variation, expected, as_recorded, device, result)
            if reason:
                result.notes.append(f"{variation.label}: PyTorch's CPU kernel: {reason}")
                difference = None
            result.add(variation.check, sample, difference and f"{variation.label}: {difference}")
    if not result.available:
        result.samples = 1
        result.add("call", 0, "no call runs on CPU: see suites/arguments/calls.py")


def unusable(
    variation: Variation,
    on_cpu: CpuRun,
    as_recorded: CpuRun,
    device: torch.device,
    result: EntryResult,
) -> str | None:
    """Why what CPU did is nothing to compare with, or None."""
    assert on_cpu.outcome is not None
    error = on_cpu.outcome.error
    if variation.label.endswith(REVERSED) and depends_on_strides(variation, on_cpu, as_recorded):
        # The values are the recorded ones, so the device has to give those results.
        if check_variation(variation, as_recorded, device, result, strides=False) is None:
            return "what it does depends on strides"
    elif error is not None and LIMITS_OF_CPU.search(str(error)):
        return f"it refuses what its implementation cannot do: {error}"
    return None if is_defined(variation.call) else "its result depends on unwritten memory"


def depends_on_strides(variation: Variation, on_cpu: CpuRun, as_recorded: CpuRun) -> bool:
    """Whether CPU does something else because of the order of an argument in memory."""
    assert on_cpu.outcome is not None
    if as_recorded.outcome is None or as_recorded.outcome.error is not None:
        return False
    if on_cpu.outcome.error is not None:
        return True
    for argument in overload_of(variation.call.overload)._schema.arguments:
        if argument.is_out and variation.label == f"{argument.name} {REVERSED}":
            given = variation.call.arguments[argument.name]
            if differ(given, on_cpu.arguments[argument.name], values="undefined"):
                return True
    usual = (as_recorded.outcome.value, as_recorded.arguments)
    return differ(usual, (on_cpu.outcome.value, on_cpu.arguments), strides=False)


def differ(expected: Any, actual: Any, **options: Any) -> bool:
    return tree_difference(expected, actual, CPU, **options) is not None


def check_variation(
    variation: Variation,
    on_cpu: CpuRun,
    device: torch.device,
    result: EntryResult,
    strides: bool = True,
) -> str | None:
    """The difference between device and CPU, or None; `strides`: whether those count."""
    expected = on_cpu.outcome
    assert expected is not None
    try:
        on_device = placed(variation, device)
    except Exception as error:
        return f"moving the arguments: {first_line(error)}"
    if on_device is None:
        return None
    if expected.error is not None and NO_MEMORY.search(str(expected.error)):
        return None  # whoever has more memory may go on

    def compute() -> Any:
        value = on_device.run()
        if device.type != "cpu":
            torch.accelerator.synchronize()  # raises what a device kernel found wrong
        return value

    with limited(SECONDS_ON_DEVICE):
        actual = attempt(compute)
        if actual.error is not None:
            attempt(torch.accelerator.synchronize)  # of kernels that were launched before
    if expected.error is None and actual.error is None:
        result.warned_otherwise += expected.warnings != actual.warnings
    if variation.elsewhere:
        if (difference := placement_difference(variation, expected, actual)) != "compare":
            return difference
    elif expected.error is not None or actual.error is not None:
        # Calls that depend on the order may be refused.
        refused = actual.error is not None and "unsupported operation" in str(actual.error)
        if depends_on_order(variation) and refused and expected.error is None:
            return None
        return error_difference(expected, actual)
    strides = strides and not variation.elsewhere
    return results_difference(variation, on_cpu, on_device, actual, device, strides)


def results_difference(
    variation: Variation,
    on_cpu: CpuRun,
    on_device: ArgumentsCall,
    actual: Outcome,
    device: torch.device,
    strides: bool,
) -> str | None:
    """Of results and of arguments afterwards."""
    assert on_cpu.outcome is not None
    expected = on_cpu.outcome.value
    overload = variation.call.overload
    values = "equal"
    if torch.Tag.nondeterministic_seeded in overload_of(overload).tags:
        values = "random"
    elif base_name(overload) in UNDEFINED_VALUES or depends_on_order(variation):
        values = "undefined"
    if base_name(overload) == "topk" and variation.call.arguments["sorted"] is False:
        dim = variation.call.arguments["dim"]
        return tree_difference(in_order(expected, dim), in_order(actual.value, dim), device)
    options: dict[str, Any] = {"values": values, "strides": strides}
    again = tie_check(ties_in(variation.call))
    difference = tree_difference(
        expected,
        actual.value,
        device,
        lambda: exactly(variation.call, EXACT),
        again=again,
        **options,
    )
    if difference or variation.elsewhere:
        return difference
    for name, value in on_cpu.arguments.items():
        if tensors_in(value):
            other = on_device.arguments[name]
            # Results were compared above.
            if any(t is u for t in tensors_in(value) for u in tensors_in(expected)):
                continue
            if difference := tree_difference(value, other, device, **options):
                return f"argument {name}: {difference}"
    return None


def exactly(call: ArgumentsCall, dtypes: dict[torch.dtype, torch.dtype]) -> Any:
    """The result on CPU with other dtypes; None if there is none."""
    wider = ArgumentsCall(call.overload, Transplant(CPU, dtypes=dtypes)(call.arguments))
    outcome = next(run_each([wider])).outcome
    return outcome and outcome.value


def in_order(values_and_indices: Any, dim: int) -> Any:
    """The values alone, sorted, where they may come in any order."""
    return values_and_indices[0].sort(dim).values


def depends_on_order(variation: Variation) -> bool:
    """Whether elements are written more than once, or before they are read."""
    return variation.check == "overlaps" and "same tensor as the read" not in variation.label


def ties_in(call: ArgumentsCall) -> Any:
    """For `tie_check`: results that hold indices of equal values."""
    name = base_name(call.overload)
    if name not in RULES:
        return None
    keywords = {k: v for k, v in call.arguments.items() if f"{k}=" in RULES[name].parameters}
    keywords |= {"k": call.arguments["k"]} if "k" in call.arguments else {}
    sample = SimpleNamespace(input=call.arguments["self"], args=(), kwargs=keywords)
    return ties_of(SimpleNamespace(full_name=name), sample)  # type: ignore[arg-type]


# ---- tensors on several devices -----------------------------------------------------------------


def placed(variation: Variation, device: torch.device) -> ArgumentsCall | None:
    """The call with its tensors where the variation wants them; None if that is one device."""
    if not variation.elsewhere:
        return variation.call.on(device)
    arguments = variation.call.arguments
    rest = {name: value for name, value in arguments.items() if name != variation.moved}
    if not tensors_in(rest):
        return None
    locations = (CPU, device) if variation.elsewhere == "host" else (device, CPU)
    moved = Transplant(locations[0])(arguments[variation.moved])
    together = {**Transplant(locations[1])(rest), variation.moved: moved}
    return ArgumentsCall(variation.call.overload, {name: together[name] for name in arguments})


def placement_difference(variation: Variation, expected: Outcome, actual: Outcome) -> str | None:
    """The outcome by PyTorch's rule for tensors on two devices, or "compare".

    The call raises a RuntimeError. Numbers are the exception: a CPU tensor without dimensions may
    stand beside tensors of the device; then the call may give CPU's results as well.
    """
    arguments = variation.call.arguments
    rest = [name for name in arguments if name != variation.moved]
    on_host = [variation.moved] if variation.elsewhere == "host" else rest
    tensors = {name: tensors_in(arguments[name]) for name in on_host}
    large = {name for name in on_host if any(t.dim() > 0 for t in tensors[name])}
    if expected.error is not None:
        return None if actual.error is not None else error_difference(expected, actual)
    if isinstance(actual.error, (RuntimeError, NotImplementedError)):
        return None
    if actual.error is not None:
        return f"raises {first_line(actual.error)} and not a RuntimeError"
    taken = TAKES_HOST_TENSORS.get(base_name(variation.call.overload))
    if not large or (taken is not None and (not taken or large <= taken)):
        return "compare"
    return "does not raise although tensors are on two devices"


# ---- limits -------------------------------------------------------------------------------------


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Ends the process when the block takes longer; kernels cannot be interrupted otherwise."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def too_large(call: ArgumentsCall) -> bool:
    """Whether results would take too much memory, if meta kernels can tell."""
    numbers = [v for v in tree_leaves(call.arguments) if isinstance(v, (int, float, complex))]
    if all(not abs(n) > 1 << 16 for n in numbers) or base_name(call.overload) in NO_META:
        return False
    outcome = attempt(lambda: run(call.overload, on_meta(call)))
    size = 0
    for tensor in tensors_in(outcome.value):
        with contextlib.suppress(Exception):
            size += math.prod(tensor.shape) * tensor.element_size()
    return size > LARGEST_RESULT


def on_meta(call: ArgumentsCall) -> dict[str, Any]:
    def move(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
        )

    arguments = tree_map_only(torch.Tensor, move, call.arguments)
    moved: dict[str, Any] = tree_map_only(torch.device, lambda _: torch.device("meta"), arguments)
    return moved
