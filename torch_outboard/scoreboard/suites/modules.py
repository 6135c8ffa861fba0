"""The modules of `torch.nn` with the inputs of PyTorch's database.

- module forward: results, in training and in evaluation
- module backward: gradients of parameters and arguments
- module state: `state_dict` afterwards, with statistics of batches, and that it can be loaded
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from torch_outboard.scoreboard.comparison.calls import (
    CPU,
    EXACT,
    Outcome,
    Recorder,
    attempt,
    differentiable,
    error_difference,
)
from torch_outboard.scoreboard.comparison.differences import first_line, tree_difference
from torch_outboard.scoreboard.comparison.transplant import Transplant
from torch_outboard.scoreboard.findings import EntryResult, Limits

SAMPLES = 8  # of an entry


@cache
def modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def entries(dtype: str) -> list[str]:
    if not dtype:
        return list(modules())
    return [name for name, info in modules().items() if getattr(torch, dtype) in info.dtypes]


@dataclass
class Run:
    """A module and its arguments on a device.

    Args:
        results: of the forward pass.
        tensors: parameters and arguments that require gradients.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any = None

    def forward(self) -> Any:
        self.results = self.module(*self.args, **self.kwargs)
        _synchronize(self.module)
        return self.results

    def gradients(self) -> Any:
        outputs = differentiable(self.results)
        leaves = torch.utils._pytree.tree_leaves((self.args, self.kwargs))
        inputs = [*differentiable(leaves), *(p for p in self.module.parameters())]
        inputs = [t for t in inputs if t.requires_grad]
        if not outputs or not inputs:
            return None
        generator = torch.Generator().manual_seed(0)
        given = [
            torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.device, t.dtype)
            for t in outputs
        ]
        found = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        _synchronize(self.module)
        return found


def _synchronize(module: nn.Module) -> None:
    if any(t.device.type != "cpu" for t in (*module.parameters(), *module.buffers())):
        torch.accelerator.synchronize()


def made(info: Any, module_input: Any, dtype: torch.dtype, training: bool) -> Run:
    """The module on CPU; a lazy one is given its shapes."""
    torch.manual_seed(0)
    constructor, forward = module_input.constructor_input, module_input.forward_input
    module = info.module_cls(*constructor.args, **constructor.kwargs).to(dtype)
    module.train(training)
    run = Run(module, tuple(forward.args), dict(forward.kwargs))
    if info.is_lazy:
        moved_to(run, CPU, module=module).forward()
    return run


def moved_to(
    run: Run,
    device: torch.device,
    dtypes: dict[torch.dtype, torch.dtype] | None = None,
    module: nn.Module | None = None,
) -> Run:
    """Copies on a device, perhaps of other dtypes."""
    copied = module if module is not None else copy.deepcopy(run.module).to(device)
    if dtypes:
        copied = copied.double()
    move = Transplant(device, requires_grad=True, dtypes=dtypes)
    args, kwargs = move((run.args, run.kwargs))
    return Run(copied, args, kwargs)


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    warnings.simplefilter("ignore")  # CPU gives the same ones
    info, wanted = modules()[entry], getattr(torch, dtype)
    inputs = list(inputs_of(info, wanted))
    result.available = len(inputs)
    for number, (training, module_input) in limits.of(inputs, SAMPLES):
        also = ("module backward", "module state")
        if module_input.forward_input is not None and result.begins(
            "module forward", number, also=also
        ):
            check_module(made(info, module_input, wanted, training), number, device, result)


def inputs_of(info: Any, dtype: torch.dtype) -> Iterator[tuple[bool, Any]]:
    """Whether it trains, and arguments."""
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        for module_input in info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        ):
            yield training, module_input


def check_module(run: Run, number: int, device: torch.device, result: EntryResult) -> None:
    on_cpu = moved_to(run, CPU)
    recorder = Recorder()
    with recorder:
        attempt(moved_to(run, CPU).forward)
    expected = attempt(on_cpu.forward)
    try:
        on_device = moved_to(run, device)
    except Exception as error:
        result.add("module forward", number, f"moving the module: {first_line(error)}")
        return
    actual = attempt(on_device.forward)
    result.samples += expected.error is None
    if expected.error is not None or actual.error is not None:
        result.add("module forward", number, error_difference(expected, actual))
        return
    values = "random" if recorder.draws else "equal"
    exact = None if recorder.draws else moved_to(run, CPU, EXACT)
    forward = attempt(exact.forward) if exact is not None else Outcome()
    difference = tree_difference(
        expected.value, actual.value, device, lambda: forward.value, values=values, strides=False
    )
    result.add("module forward", number, difference)
    want, got = attempt(on_cpu.gradients), attempt(on_device.gradients)
    if want.error is not None or got.error is not None:
        result.add("module backward", number, error_difference(want, got))
    elif want.value is not None:
        difference = tree_difference(
            want.value,
            got.value,
            device,
            lambda: attempt(exact.gradients).value if exact is not None else None,
            values="random sums" if recorder.draws else "equal",
            strides=False,
        )
        result.add("module backward", number, difference)
    check_state(on_cpu.module, on_device.module, number, device, result, values)


def check_state(
    on_cpu: nn.Module,
    on_device: nn.Module,
    number: int,
    device: torch.device,
    result: EntryResult,
    values: str,
) -> None:
    want, got = dict(on_cpu.state_dict()), dict(on_device.state_dict())
    difference = tree_difference(want, got, device, values=values, strides=False)
    if difference is None:
        loaded = attempt(lambda: on_device.load_state_dict(want))
        again = dict(on_device.state_dict())
        difference = (
            first_line(loaded.error)
            if loaded.error is not None
            else tree_difference(want, again, device, strides=False)
        )
    result.add("module state", number, difference)
