"""PyTorch's database of operators, by full name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch

from torch_outboard.scoreboard.findings import EntryResult, Limits

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput


@cache
def operators() -> dict[str, OpInfo]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db}


def operator(entry: str) -> OpInfo:
    return operators()[entry]


def entries(dtype: str = "") -> list[str]:
    """Names of the entries whose CPU kernels take the dtype; all without one."""
    if not dtype:
        return list(operators())
    wanted = getattr(torch, dtype)
    return [name for name, op in operators().items() if wanted in op.supported_dtypes("cpu")]


def samples_of(
    op: OpInfo, dtype: torch.dtype, result: EntryResult, requires_grad: bool = False
) -> list[SampleInput]:
    """The samples of an entry on CPU, the same in each run; `result` gets their number."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    result.available = len(samples)
    return samples


def by_name(
    check_entry: Callable[..., object],
) -> Callable[[str, str, torch.device, EntryResult, Limits], None]:
    """`check` of a suite, from its function of an entry and a dtype."""

    def check(
        entry: str, dtype: str, device: torch.device, result: EntryResult, limits: Limits
    ) -> None:
        wanted = getattr(torch, dtype)
        check_entry(operator(entry), wanted, device, result=result, limits=limits)

    return check
