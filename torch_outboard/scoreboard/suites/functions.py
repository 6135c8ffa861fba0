"""The operators under the transforms of `torch.func`: vmap, vjp, jvp, and vmap of vjp.

A batch holds the first tensor and its elements in reverse order. CPU does the same; what it cannot
do is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    Call,
    attempt,
    error_difference,
    in_float64,
    nature,
    prepare,
)
from torch_outboard.scoreboard.comparison.differences import first_line, tree_difference
from torch_outboard.scoreboard.comparison.order_statistics import Ties, tie_check, ties_of
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.database import by_name, samples_of

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

SAMPLES = 3  # of an entry


def check_entry(
    op: OpInfo, dtype: torch.dtype, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    samples = samples_of(op, dtype, result)
    for number, sample in limits.of(samples, SAMPLES):
        if not isinstance(sample.input, torch.Tensor) or sample.input.layout != torch.strided:
            continue
        for name, transform in TRANSFORMS.items():
            differentiates = name != "vmap"
            if differentiates and not (dtype.is_floating_point and op.supports_autograd):
                continue
            if name == "jvp" and not op.supports_forward_ad:
                continue
            if result.begins(name, number):
                compare(op, sample, number, device, result, name, transform)


check = by_name(check_entry)


def compare(
    op: OpInfo,
    sample: SampleInput,
    number: int,
    device: torch.device,
    result: EntryResult,
    name: str,
    transform: Callable[[Callable[..., Any], torch.Tensor], Any],
) -> None:
    def run(call: Call) -> Any:
        def function(x: torch.Tensor) -> Any:
            value = op.op(x, *call.args, **call.kwargs)
            if name != "vmap":
                value = tuple(differentiable_results(value))
            return value

        value = transform(function, call.input)
        if call.device.type != "cpu":
            torch.accelerator.synchronize()
        return value

    expected = attempt(lambda: run(prepare(op, sample, CPU)))
    if expected.error is not None or expected.value is None:
        return
    result.samples += 1
    try:
        on_device = prepare(op, sample, device)
    except Exception as error:
        result.add(name, number, f"moving the arguments: {first_line(error)}")
        return
    actual = attempt(partial(run, on_device))
    if actual.error is not None:
        result.add(name, number, error_difference(expected, actual))
        return
    known = nature(op, sample)
    difference = tree_difference(
        expected.value,
        actual.value,
        device,
        lambda: attempt(lambda: run(in_float64(sample))).value,
        values="random sums" if known.values == "random" else known.values,
        sums=True,
        again=tie_check(ties_of_batch(op, sample)) if name == "vmap" else None,
        strides=False,
    )
    result.add(name, number, difference)


def differentiable_results(value: Any) -> list[torch.Tensor]:
    """Results of floating point."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [t for t in leaves if isinstance(t, torch.Tensor) and t.dtype.is_floating_point]


def batch(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x.flip(tuple(range(x.dim())))])


def ties_of_batch(op: OpInfo, sample: SampleInput) -> Ties | None:
    """The freedom of results of `vmap`."""
    ties = ties_of(op, sample)
    if ties is None or ties.input.dim() == 0:
        return None
    return replace(ties, input=batch(ties.input), dim=ties.dim + (ties.dim >= 0))


def like(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers that are the same on every device."""
    generator = torch.Generator().manual_seed(tensor.numel())
    numbers = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return numbers.to(tensor.device, tensor.dtype)


def vmap(function: Callable[..., Any], x: torch.Tensor) -> Any:
    return torch.func.vmap(function, randomness="same")(batch(x))


def vjp(function: Callable[..., Any], x: torch.Tensor) -> Any:
    outputs, backward = torch.func.vjp(function, x)[:2]
    return backward(tuple(map(like, outputs))) if outputs else None


def jvp(function: Callable[..., Any], x: torch.Tensor) -> Any:
    outputs, tangents = torch.func.jvp(function, (x,), (like(x),))[:2]
    return tangents if outputs else None


def vmap_of_vjp(function: Callable[..., Any], x: torch.Tensor) -> Any:
    outputs, backward = torch.func.vjp(function, x)[:2]
    if not outputs:
        return None
    return torch.func.vmap(backward, randomness="same")(tuple(batch(like(t)) for t in outputs))


TRANSFORMS: dict[str, Callable[[Callable[..., Any], torch.Tensor], Any]] = {
    "vmap": vmap,
    "vjp": vjp,
    "jvp": jvp,
    "vmap of vjp": vmap_of_vjp,
}
