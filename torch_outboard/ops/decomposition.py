"""Operators made of other operators: a function that calls them
(csrc/device_kernels/decompositions/decomposition.cpp runs it)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch

from torch_outboard import _C
from torch_outboard.ops.definition import (
    EVERY,
    Definition,
    Report,
    caller_location,
    dtype_bits,
    reported,
)
from torch_outboard.ops.requirements import Requirement, definition_of
from torch_outboard.ops.symbolic import SymBool


def decomposition(
    overloads: str,
    body: Callable[..., Any] | str,
    *,
    dtypes: Iterable[torch.dtype] = EVERY,
    requires: Mapping[str, Requirement] | None = None,
    condition: Callable[..., SymBool] | None = None,
    results: str = "",
    meta: str = "",
    casts: Literal["", "TypeError", "RuntimeError"] = "",
    cpu_arguments: bool = False,
    reports: Report | None = None,
    alert: str = "",
    family: str = "",
) -> Definition:
    """Defines a decomposition.

    Args:
        overloads: names without namespace, separated by blanks.
        body: a function that calls operators of PyTorch; its parameters are any arguments of the
            overloads (`from_` is the argument `from`), and `results`. Or the name of such a
            function in C++, for operators that programs call very often. It runs below autograd
            and autocast, on any thread.
        dtypes: served dtypes of the first tensor.
        requires: requirements on arguments; see requirements.py.
        condition: a function of arguments, by their names and as symbols, that says which calls are
            served; a body in Python may decline further calls by `require`.
        results: parameter names, with `meta`: the body gets the allocated results and writes them.
        casts, cpu_arguments: see csrc/device_kernels/decompositions/decomposition.cpp.
        meta, reports, alert, family: as in `template`.
    """
    known: dict[str, Any] = {
        "body": body,
        "dtypes": dtype_bits(dtypes),
        "results": results.split(),
        "meta": meta,
        "casts": casts,
        "cpu_arguments": cpu_arguments,
        "alert": alert,
        **reported(reports),
    }
    return definition_of(
        "decomposition",
        overloads,
        known,
        location=caller_location(),
        requires=requires,
        condition=condition,
        family=family,
    )


def require(holds: bool) -> None:
    """Declines the call if the condition does not hold; another kernel then serves it.

    Call it before the body writes to an argument: afterwards declining raises RuntimeError.
    """
    if not holds:
        raise _C.Declined
