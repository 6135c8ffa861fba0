"""How rows of the engine `composed` (csrc/device_kernels/composed/composed.cpp) are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.ops.requirements import Requirement, served_calls
from torch_outboard.ops.row import EVERY, Row, Value, dtype_bits, qualified
from torch_outboard.ops.symbolic import SymBool


def composed(
    overloads: str,
    body: Callable[..., Any] | str,
    *,
    dtypes: Iterable[torch.dtype] = EVERY,
    requires: Mapping[str, Requirement] | None = None,
    condition: Callable[..., SymBool] | None = None,
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
        requires: what arguments have to be, as in requirements.py.
        condition: a function of arguments, by their names and as symbols, that says which calls are
            served; a body in Python may ask for more by `require`.
        results, properties (`meta`, `family`): as in composed.cpp.
    """
    names = qualified(overloads)
    return {
        "engine": "composed",
        "overloads": names,
        "body": body,
        "dtypes": dtype_bits(dtypes),
        "results": results.split(),
        **served_calls(names[0], requires, condition),
        **properties,
    }


def require(holds: bool) -> None:
    """Declines the call, which another kernel then serves, if the condition does not hold.

    To be asked before the body writes to an argument: afterwards declining raises RuntimeError.
    """
    if not holds:
        raise _C.Declined
