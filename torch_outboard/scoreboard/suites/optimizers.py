"""The optimizers of `torch.optim` with the options of PyTorch's database, against loops on CPU.

- optimizer loop, optimizer foreach, optimizer fused: parameters and state after some steps
- optimizer state: saved after the first steps and loaded by another, it goes on the same way
"""

from __future__ import annotations

import copy
import inspect
import warnings
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from torch_outboard.scoreboard.comparison.calls import CPU, attempt, error_difference
from torch_outboard.scoreboard.comparison.differences import tree_difference
from torch_outboard.scoreboard.findings import EntryResult, Limits

SAMPLES = 12  # of an entry
STEPS = 3
SHAPES = ((4, 3), (7, 5), (1, 1))
FLAGS: dict[str, dict[str, bool]] = {
    "optimizer loop": {"foreach": False, "fused": False},
    "optimizer foreach": {"foreach": True},
    "optimizer fused": {"fused": True},
}
# One that keeps history and searches lines amplifies roundings.
SEARCHES = frozenset({"LBFGS"})


@cache
def optimizers() -> dict[str, Any]:
    from torch.testing._internal import common_optimizers

    optim_db: list[Any] = common_optimizers.optim_db
    return {f"optim.{name_of(info)}": info for info in optim_db}


def name_of(info: Any) -> str:
    return str(info.optim_cls.__name__)


def entries(dtype: str) -> list[str]:
    return list(optimizers())


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    warnings.simplefilter("ignore")  # CPU gives the same ones
    info, wanted = optimizers()[entry], getattr(torch, dtype)
    inputs = info.optim_inputs_func(device="cpu")
    result.available = len(inputs)
    for number, optim_input in limits.of(inputs, SAMPLES):
        options = dict(optim_input.kwargs)
        for name, flags in FLAGS.items():
            if is_supported(info, name) and result.begins(name, number):
                check_steps(info, {**options, **known(info, flags)}, wanted, device, number, name,
                            result)  # fmt: skip
        if result.begins("optimizer state", number):
            check_saved(info, options, wanted, device, number, result)


def is_supported(info: Any, name: str) -> bool:
    kind = name.rpartition(" ")[2]
    return kind == "loop" or kind in info.supported_impls


def known(info: Any, flags: dict[str, bool]) -> dict[str, bool]:
    """Those that the optimizer has."""
    parameters = inspect.signature(info.optim_cls).parameters
    return {name: value for name, value in flags.items() if name in parameters}


class Training:
    """Parameters that an optimizer moves towards numbers."""

    def __init__(
        self, info: Any, options: dict[str, Any], dtype: torch.dtype, device: torch.device
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        self.sparse = info.only_supports_sparse_grads
        self.parameters = [
            torch.nn.Parameter(
                torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)
            )
            for shape in SHAPES
        ]
        self.targets = [
            torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)
            for shape in SHAPES
        ]
        self.optimizer = info.optim_cls(self.parameters, **copy.deepcopy(options))

    def closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        pairs = zip(self.parameters, self.targets, strict=True)
        loss = torch.stack([((p - t) * (p - t)).sum() for p, t in pairs]).sum()
        loss.backward()
        if self.sparse:
            for parameter in self.parameters:
                assert parameter.grad is not None
                parameter.grad = parameter.grad.to_sparse()
        return loss

    def run(self, steps: int = STEPS) -> list[torch.Tensor]:
        """The parameters afterwards."""
        for _ in range(steps):
            self.optimizer.step(self.closure)
        if self.parameters[0].device.type != "cpu":
            torch.accelerator.synchronize()
        return [p.detach() for p in self.parameters]

    def state(self) -> Any:
        """Of the optimizer; steps and rates may be on the host."""
        state = self.optimizer.state_dict()["state"]
        return tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), state)


def check_steps(
    info: Any,
    options: dict[str, Any],
    dtype: torch.dtype,
    device: torch.device,
    number: int,
    name: str,
    result: EntryResult,
) -> None:
    """With some flags, against a loop on CPU."""
    reference = {**options, **known(info, FLAGS["optimizer loop"])}
    on_cpu = attempt(lambda: Training(info, options, dtype, CPU))
    same = attempt(lambda: on_cpu.value.run()) if on_cpu.error is None else on_cpu
    if same.error is not None and "fused" not in str(same.error):
        return  # options that exclude each other, on CPU as well
    expected_run = Training(info, reference, dtype, CPU)
    expected = attempt(expected_run.run)
    if expected.error is not None:
        return
    result.samples += 1
    made = attempt(lambda: Training(info, options, dtype, device))
    actual = attempt(lambda: made.value.run()) if made.error is None else made
    if actual.error is not None:
        result.add(name, number, error_difference(expected, actual))
        return

    def exactly() -> Any:
        return attempt(lambda: Training(info, reference, torch.float64, CPU).run()).value

    difference = tree_difference(expected.value, actual.value, device, exactly, strides=False)
    if difference is None and name_of(info) not in SEARCHES:
        exact = attempt(lambda: exact_state(info, reference)).value
        difference = tree_difference(
            expected_run.state(), made.value.state(), CPU, lambda: exact, strides=False
        )
        difference = difference and f"state: {difference}"
    result.add(name, number, difference)


def exact_state(info: Any, options: dict[str, Any]) -> Any:
    training = Training(info, options, torch.float64, CPU)
    training.run()
    return training.state()


def check_saved(
    info: Any,
    options: dict[str, Any],
    dtype: torch.dtype,
    device: torch.device,
    number: int,
    result: EntryResult,
) -> None:
    def resumed(location: torch.device) -> list[torch.Tensor]:
        first, second = (Training(info, options, dtype, location) for _ in range(2))
        first.run(1)
        with torch.no_grad():
            for old, new in zip(first.parameters, second.parameters, strict=True):
                new.copy_(old)
        second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
        return second.run(STEPS - 1)

    expected = attempt(lambda: resumed(CPU))
    if expected.error is not None:
        return
    whole = attempt(lambda: Training(info, options, dtype, device).run())
    actual = attempt(lambda: resumed(device))
    if whole.error is not None or actual.error is not None:
        result.add("optimizer state", number, error_difference(expected, actual))
        return
    result.samples += 1
    difference = tree_difference(whole.value, actual.value, device, strides=False)
    result.add("optimizer state", number, difference)
