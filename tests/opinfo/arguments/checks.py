"""What is checked of one overload: every variation does on the device what it does on CPU."""

from __future__ import annotations

import contextlib
import math
import re
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.opinfo.arguments.calls import ArgumentsCall, base_name, calls_of, run
from tests.opinfo.arguments.variations import Variation, variations
from tests.opinfo.checks import (
    CPU,
    EXACT,
    UNDEFINED_VALUES,
    EntryResult,
    Outcome,
    attempt,
    error_difference,
)
from tests.opinfo.comparison import first_line, tensors_in, tree_difference
from tests.opinfo.order_statistics import RULES, judge, ties_of
from tests.opinfo.transplant import Transplant
from torch_outboard.tuning.sample_arguments import overload_of

LARGEST_RESULT = 100 << 20  # bytes; calls with larger ones are left out
SECONDS_ON_CPU, SECONDS_ON_DEVICE = 20, 90  # for one call; the device may have to compile
NO_MEMORY = re.compile(
    "can't allocate memory|not enough memory|Storage size calculation overflow|out of memory"
    "|allocate [0-9.]+ .iB|cannot allocate"
)
# Operators whose indices may be on the host, as for CUDA, and those that copy between devices.
TAKES_HOST_TENSORS = frozenset(
    {"copy", "index", "index_put", "index_put_impl", "unsafe_index", "to_copy"}
)


def check_arguments(
    overload: str,
    device: torch.device,
    left_out: Callable[[str, int, str], bool],
    mark: Callable[[str], None],
) -> EntryResult:
    """Runs every variation of the overload's calls.

    Args:
        left_out: whether a variation is not to be run, by its check, number and label.
        mark: is told what runs next, in case that the process ends in it.
    """
    result = EntryResult()
    for position, call in enumerate(calls_of(overload)):
        for number, variation in enumerate(variations(call, numbers_only=position > 0)):
            result.available += 1
            sample = number + 1000 * position
            if left_out(variation.check, sample, variation.label) or too_large(variation.call):
                continue
            result.samples += 1

            def note(where: str, number: int = sample, label: str = variation.label) -> None:
                mark(f"{number} {where}: {label}")

            difference = check_variation(variation, device, note, result)
            reason = difference and f"{variation.label}: {difference}"
            result.add(variation.check, sample, reason)
    return result


def check_variation(
    variation: Variation, device: torch.device, mark: Callable[[str], None], result: EntryResult
) -> str | None:
    """What the device does otherwise than CPU, or None."""
    try:
        on_cpu = variation.call.on(CPU)
        on_device = placed(variation, device)
    except Exception as error:
        return f"moving the arguments: {first_line(error)}"
    if on_device is None:
        return None
    with limited(SECONDS_ON_CPU, lambda: mark("CPU")):
        expected = attempt(on_cpu.run)

    if expected.error is not None and NO_MEMORY.search(str(expected.error)):
        return None  # whoever has more memory may go on

    def compute() -> Any:
        value = on_device.run()
        if device.type != "cpu":
            torch.accelerator.synchronize()  # raises what a device kernel found wrong
        return value

    with limited(SECONDS_ON_DEVICE, lambda: mark("device")):
        actual = attempt(compute)
        if actual.error is not None:
            attempt(torch.accelerator.synchronize)  # of kernels that were launched before
    if expected.error is None and actual.error is None:
        result.warned_otherwise += expected.warnings != actual.warnings
    if variation.elsewhere:
        if (difference := placement_difference(variation, expected, actual)) != "compare":
            return difference
    elif expected.error is not None or actual.error is not None:
        # What depends on the order may be refused.
        refused = actual.error is not None and "unsupported operation" in str(actual.error)
        if depends_on_order(variation) and refused and expected.error is None:
            return None
        return error_difference(expected, actual)
    return results_difference(variation, on_cpu, on_device, expected, actual, device)


def results_difference(
    variation: Variation,
    on_cpu: ArgumentsCall,
    on_device: ArgumentsCall,
    expected: Outcome,
    actual: Outcome,
    device: torch.device,
) -> str | None:
    """Of results and of arguments afterwards."""
    overload = variation.call.overload
    values = "equal"
    if torch.Tag.nondeterministic_seeded in overload_of(overload).tags:
        values = "random"
    elif base_name(overload) in UNDEFINED_VALUES or depends_on_order(variation):
        values = "undefined"

    def exact() -> Any:
        arguments = Transplant(CPU, dtypes=EXACT)(variation.call.arguments)
        return attempt(lambda: run(overload, arguments)).value

    options: dict[str, Any] = {"values": values, "strides": not variation.elsewhere}
    again = judge(ties_in(variation.call))
    difference = tree_difference(
        expected.value, actual.value, device, exact, again=again, **options
    )
    if difference or variation.elsewhere:
        return difference
    for name, value in on_cpu.arguments.items():
        if tensors_in(value):
            other = on_device.arguments[name]
            # What was compared as the result has been judged.
            if any(t is u for t in tensors_in(value) for u in tensors_in(expected.value)):
                continue
            if difference := tree_difference(value, other, device, **options):
                return f"argument {name}: {difference}"
    return None


def depends_on_order(variation: Variation) -> bool:
    """Whether elements are written more than once, or before they are read."""
    return variation.check == "overlaps" and "same tensor as the read" not in variation.label


def ties_in(call: ArgumentsCall) -> Any:
    """For `judge`: results that hold places among equal values."""
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
    places = (CPU, device) if variation.elsewhere == "host" else (device, CPU)
    moved = Transplant(places[0])(arguments[variation.moved])
    together = {**Transplant(places[1])(rest), variation.moved: moved}
    return ArgumentsCall(variation.call.overload, {name: together[name] for name in arguments})


def placement_difference(variation: Variation, expected: Outcome, actual: Outcome) -> str | None:
    """What PyTorch's rule for accelerators says of tensors on two devices, or "compare".

    The call raises a RuntimeError. Numbers are the exception: a CPU tensor without dimensions may
    stand beside tensors of the device; then the call may give CPU's results as well.
    """
    arguments = variation.call.arguments
    rest = [value for name, value in arguments.items() if name != variation.moved]
    on_host = tensors_in(arguments[variation.moved] if variation.elsewhere == "host" else rest)
    if expected.error is not None:
        return None if actual.error is not None else error_difference(expected, actual)
    if isinstance(actual.error, (RuntimeError, NotImplementedError)):
        return None
    if actual.error is not None:
        return f"raises {first_line(actual.error)} and not a RuntimeError"
    if all(t.dim() == 0 for t in on_host):
        return "compare"
    if variation.elsewhere == "host" and base_name(variation.call.overload) in TAKES_HOST_TENSORS:
        return "compare"
    return "does not raise although tensors are on two devices"


# ---- limits -------------------------------------------------------------------------------------


@contextlib.contextmanager
def limited(seconds: int, mark: Callable[[], None]) -> Iterator[None]:
    """Ends the process when the block takes longer; kernels cannot be interrupted otherwise."""
    mark()
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def too_large(call: ArgumentsCall) -> bool:
    """Whether results would take too much memory, if meta kernels can tell."""
    numbers = [v for v in tree_leaves(call.arguments) if isinstance(v, (int, float, complex))]
    if all(not abs(n) > 1 << 16 for n in numbers):
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
    return tree_map_only(torch.device, lambda _: torch.device("meta"), arguments)
