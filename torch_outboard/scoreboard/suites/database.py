"""PyTorch's database of operators, by full name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo


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
