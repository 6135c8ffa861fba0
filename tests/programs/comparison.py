"""Runs a whole program on CPU and on the device, and compares all that it shows step by step.

A program is a function of a `Run`. It makes its models on CPU from the run's seed, moves them to
`run.device`, works for some steps, and shows after each what it has: numbers, tensors, modules,
optimizers, in dictionaries and lists of any depth. Of these are compared

- numbers, names, booleans, dtypes, shapes and integers, which have to be equal;
- identities: which of the shown tensors are the same object, and which share their memory;
- values in floating point: bit by bit where the device takes CPU's kernels and so the same order
  of additions, and else by a third run, on CPU in float64. What the device shows must not be
  further from that than a multiple of what CPU's float32 is. So a program may be as sensitive as
  it likes: an Adam whose gradient is nothing but rounding is told from a wrong one.

Random numbers come from CPU's generator, because that of the device draws others.
"""

import functools
import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

SEED = 2026
# How far the device may be from the exact values, in units of what CPU's float32 is off.
ERROR_RATIO = 8.0
# Errors within this part of the largest element are right in float32, whatever CPU's error is.
RELATIVE = 2e-5
# As is what is smaller than this: gradients that would be zero without rounding.
ABSOLUTE = 1e-7

Moved = TypeVar("Moved", torch.Tensor, nn.Module)
Leaf = tuple[str, Any]


@dataclass(frozen=True)
class Run:
    """Where a program runs, and in which precision."""

    device: torch.device
    dtype: torch.dtype = torch.float32

    @property
    def exact(self) -> bool:
        """Whether this is the run in float64, which does without mixed precision."""
        return self.dtype == torch.float64

    def precise(self, made: Moved) -> Moved:
        """A module or a tensor made on CPU, in the precision of this run, still on CPU."""
        if isinstance(made, nn.Module):
            return made.double() if self.exact else made
        return made.double() if self.exact and made.is_floating_point() else made

    def autocast(self, dtype: torch.dtype) -> torch.autocast:
        """Mixed precision where the run is not that in float64."""
        return torch.autocast(self.device.type, dtype, enabled=not self.exact)

    def draw(self, *size: int) -> torch.Tensor:
        """Normal numbers, drawn on CPU: the same in every run."""
        return self.precise(torch.randn(*size)).to(self.device)

    def integers(self, low: int, high: int, size: Iterable[int]) -> torch.Tensor:
        """Integers of [low, high), drawn on CPU: the same in every run."""
        return torch.randint(low, high, tuple(size)).to(self.device)

    def on_device(self, made: Moved) -> Moved:
        """A module or a tensor made on CPU, where this run works."""
        return self.precise(made).to(self.device)


Program = Callable[[Run], Iterator[dict[str, Any]]]


@dataclass
class Step:
    """Values of a program after a step, copied to CPU."""

    values: dict[str, Any]
    same_objects: set[frozenset[str]]
    same_memory: set[frozenset[str]]
    devices: set[torch.device]


def leaves(path: str, shown: Any) -> Iterator[Leaf]:
    """All that is in something shown, with names."""
    if isinstance(shown, nn.Module):
        tensors = shown.named_parameters(remove_duplicate=False)
        yield from ((f"{path}.{name}", parameter) for name, parameter in tensors)
        buffers = shown.named_buffers(remove_duplicate=False)
        yield from ((f"{path}.{name}", buffer) for name, buffer in buffers)
    elif isinstance(shown, torch.optim.Optimizer):
        for number, group in enumerate(shown.param_groups):
            for key, value in group.items():
                yield from leaves(f"{path}.groups[{number}].{key}", value)
            for index, parameter in enumerate(group["params"]):
                yield from leaves(f"{path}.state[{number}][{index}]", shown.state[parameter])
    elif isinstance(shown, dict):
        for key, value in shown.items():
            yield from leaves(f"{path}.{key}" if path else str(key), value)
    elif isinstance(shown, (list, tuple)):
        for index, value in enumerate(shown):
            yield from leaves(f"{path}[{index}]", value)
    else:
        yield path, shown


def copied(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    return dense.cpu().clone() if tensor.device.type != "meta" else dense


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """An identifier of a tensor's memory; None where there is none."""
    if tensor.layout != torch.strided or tensor.device.type == "meta" or not tensor.numel():
        return None
    return (str(tensor.device), tensor.untyped_storage().data_ptr())


def groups(keys: Iterable[tuple[str, Any]]) -> set[frozenset[str]]:
    """The names that have a key in common."""
    by_key: dict[Any, set[str]] = defaultdict(set)
    for name, key in keys:
        by_key[key].add(name)
    return {frozenset(names) for names in by_key.values() if len(names) > 1}


def step_of(shown: dict[str, Any]) -> Step:
    named = list(leaves("", shown))
    tensors = [(name, leaf) for name, leaf in named if isinstance(leaf, torch.Tensor)]
    memory = [(name, memory_of(tensor)) for name, tensor in tensors]
    return Step(
        values={
            name: copied(leaf) if isinstance(leaf, torch.Tensor) else leaf for name, leaf in named
        },
        same_objects=groups((name, id(tensor)) for name, tensor in tensors),
        same_memory=groups((name, key) for name, key in memory if key is not None),
        devices={tensor.device for _, tensor in tensors},
    )


def steps_of(program: Program, run: Run) -> list[Step]:
    """Runs a program from the seed."""
    torch.manual_seed(SEED)
    return [step_of(shown) for shown in program(run)]


def is_rounded(value: Any) -> bool:
    """Whether a value is a result in floating point."""
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, (float, complex))


def largest(difference: torch.Tensor) -> float:
    return difference.abs().max().item() if difference.numel() else 0.0


def finite_part(name: str, ours: Any, cpu: Any, exact: Any) -> tuple[torch.Tensor, ...]:
    """Values of the three runs in float64, without those that are not finite in CPU's."""
    values = [torch.as_tensor(value) for value in (ours, cpu, exact)]
    wide = torch.complex128 if any(value.is_complex() for value in values) else torch.float64
    ours, cpu, exact = (value.to(wide) for value in values)
    finite = cpu.isfinite()
    assert torch.equal(ours.isfinite(), finite), f"{name}: other elements are finite than on CPU"
    torch.testing.assert_close(ours[~finite], cpu[~finite], equal_nan=True)
    finite = finite & exact.isfinite()
    return ours[finite], cpu[finite], exact[finite]


class Comparison:
    """Compares steps in floating point, and remembers by how much CPU was off before."""

    def __init__(self, bitwise: bool, relative: float) -> None:
        self.bitwise = bitwise
        self.relative = relative
        self.errors: dict[str, float] = defaultdict(float)

    def compare(self, name: str, ours: Any, cpu: Any, exact: Any) -> None:
        if self.bitwise:
            torch.testing.assert_close(ours, cpu, rtol=0, atol=0, equal_nan=True)
            return
        ours, cpu, exact = finite_part(name, ours, cpu, exact)
        scale = largest(exact)
        self.errors[name] = max(self.errors[name], largest(cpu - exact))
        allowed = max(ERROR_RATIO * self.errors[name], self.relative * scale, ABSOLUTE)
        error = largest(ours - exact)
        assert error <= allowed, (
            f"{name}: {error:.3g} away from float64 and {largest(ours - cpu):.3g} from CPU, which "
            f"is up to {self.errors[name]:.3g} away; the largest element is {scale:.3g}"
        )


def as_lists(names: set[frozenset[str]]) -> list[list[str]]:
    return sorted(sorted(group) for group in names)


def compare_steps(ours: Step, cpu: Step, exact: Step, comparison: Comparison) -> None:
    assert ours.values.keys() == cpu.values.keys() == exact.values.keys()
    for what in ("same_objects", "same_memory"):
        got, expected = (as_lists(getattr(step, what)) for step in (ours, cpu))
        assert got == expected, f"{what.replace('_', ' ')}: {got} on the device, {expected} on CPU"
    for name, value in cpu.values.items():
        result = ours.values[name]
        assert type(result) is type(value), name
        if isinstance(value, torch.Tensor):
            assert (result.dtype, result.shape) == (value.dtype, value.shape), name
            assert not value.is_meta, f"{name} has no values"
        if is_rounded(value):
            comparison.compare(name, result, value, exact.values[name])
        elif isinstance(value, torch.Tensor):
            assert torch.equal(result, value), f"{name}: {result} on the device, {value} on CPU"
        else:
            assert result == value, f"{name}: {result} on the device, {value} on CPU"


def compare(
    program: Program, device: torch.device, bitwise: bool, relative: float = RELATIVE
) -> list[Step]:
    """Asserts that a program shows on the device what it shows on CPU, and returns what it showed.

    Args:
        program: see the module.
        device: where to compare.
        bitwise: whether values in floating point have to be the same bits as CPU's.
        relative: what is within this part of the largest element is right anyway. CPU's error alone
            does not say how exact a program can be, since it may be small by chance.
    """
    cpu = steps_of(program, Run(torch.device("cpu")))
    exact = cpu if bitwise else steps_of(program, Run(torch.device("cpu"), torch.float64))
    ours = steps_of(program, Run(device))
    assert len(ours) == len(cpu) == len(exact)
    assert len(ours) > 1, "a program has more than one step"
    assert any(step.devices - {torch.device("cpu")} for step in ours), "all results are on CPU"
    comparison = Comparison(bitwise, relative)
    for number, steps in enumerate(zip(ours, cpu, exact, strict=True)):
        try:
            compare_steps(*steps, comparison)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {error}") from error
    changes = {name for name, value in cpu[-1].values.items() if is_rounded(value)}
    assert changes, "a program shows results in floating point"
    assert any(math.isfinite(largest(torch.as_tensor(cpu[-1].values[name]))) for name in changes), (
        "nothing is finite"
    )
    return ours


def as_on_cpu(program: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
    """Makes a test of a program, with the arguments that the program has besides its run.

    Options are those of the fixture `same_as_on_cpu`.
    """
    if program is None:
        return functools.partial(as_on_cpu, **options)
    _, *names = inspect.signature(program).parameters

    @functools.wraps(program)
    def test(same_as_on_cpu: Callable[..., list[Step]], **arguments: Any) -> None:
        same_as_on_cpu(functools.partial(program, **arguments), **options)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind) for name in ("same_as_on_cpu", *names)]
    test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return test
