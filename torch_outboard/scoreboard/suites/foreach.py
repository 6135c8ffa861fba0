"""PyTorch's operators of lists of tensors, which optimizers use.

- foreach, foreach inplace: results and arguments, as CPU's
- foreach backward: gradients
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from torch_outboard.scoreboard.comparison.calls import exactly
from torch_outboard.scoreboard.comparison.differences import tree_difference
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.operators import check_backward, check_call, run_both

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import ForeachFuncInfo

SAMPLES, GRADIENTS = 12, 4  # of an entry


@cache
def operators() -> dict[str, ForeachFuncInfo]:
    from torch.testing._internal import common_methods_invocations as database

    names = ("unary", "binary", "pointwise", "reduce", "other")
    lists = [getattr(database, f"foreach_{name}_op_db", ()) for name in names]
    return {op.full_name: op for found in lists for op in found}


def entries(dtype: str) -> list[str]:
    if not dtype:
        return list(operators())
    wanted = getattr(torch, dtype)
    return [name for name, op in operators().items() if wanted in op.supported_dtypes("cpu")]


def check(
    entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
) -> None:
    op, wanted = operators()[entry], getattr(torch, dtype)
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", wanted, requires_grad=False))
    result.available = len(samples)
    for number, sample in limits.of(samples, SAMPLES):
        if op.supports_out and result.begins("foreach", number):
            check_call(op, sample, number, device, result, "foreach")
        if op.inplace_variant is None or not result.begins("foreach inplace", number):
            continue
        name = "foreach inplace"
        pair = run_both(op, sample, number, device, result, name, op.inplace_variant)
        if pair is None:
            continue
        exact = exactly(op, sample)
        difference = tree_difference(pair.on_cpu.input, pair.on_device.input, device, exact)
        result.add(name, number, difference and f"input: {difference}")
        wanted_others, others = ((c.args, c.kwargs) for c in (pair.on_cpu, pair.on_device))
        difference = tree_difference(wanted_others, others, device)
        result.add(name, number, difference and f"another argument: {difference}")
    if op.supports_autograd and wanted in op.supported_backward_dtypes("cpu"):
        torch.manual_seed(0)
        samples = list(op.sample_inputs("cpu", wanted, requires_grad=True))
        for number, sample in limits.of(samples, GRADIENTS):
            if result.begins("foreach backward", number):
                check_backward(op, sample, number, device, result, "foreach backward")
