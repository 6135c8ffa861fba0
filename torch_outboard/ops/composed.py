"""How rows of the engine `composed` (csrc/device_kernels/composed/composed.cpp) are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.ops.row import EVERY, Row, Value, dtype_bits, qualified


def composed(
    overloads: str,
    body: Callable[..., Any] | str,
    *,
    dtypes: Iterable[torch.dtype] = EVERY,
    conditions: Sequence[str] = (),
    results: str = "",
    **properties: Value,
) -> Row:
    """A row.

    Args:
        overloads: names without namespace, separated by blanks.
        body: a function that calls operators of PyTorch; its parameters are arguments of the
            overloads, as many as it wants (`from_` is the argument `from`), and `results`. Or the
            name of such a function in C++, for operators that programs call very often. It runs
            below autograd and autocast, on any thread.
        dtypes: of the first tensor, that are served.
        conditions, results, properties (`meta`, `requires`, `family`): as in composed.cpp.
    """
    return {
        "engine": "composed",
        "overloads": qualified(overloads),
        "body": body,
        "dtypes": dtype_bits(dtypes),
        "conditions": list(conditions),
        "results": results.split(),
        **properties,
    }


def require(holds: bool) -> None:
    """Declines the call, which another kernel then serves, if the condition does not hold.

    To be asked before the body writes to an argument: afterwards declining raises RuntimeError.
    """
    if not holds:
        raise _C.Declined
