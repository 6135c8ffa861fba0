"""Operators made of other operators: a function that calls them
(csrc/device_kernels/decompositions/decomposition.cpp runs it)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from torch_outboard import _C
from torch_outboard.ops.definition import (
    EVERY,
    Definition,
    Report,
    caller_location,
    definition_of,
    dtype_bits,
    reported,
)
from torch_outboard.ops.symbolic import SymBool


@dataclass(kw_only=True, eq=False, repr=False)
class Decomposition(Definition):
    """A function that calls other operators; `decomposition` describes the fields."""

    kind: ClassVar[str] = "decomposition"
    body: Callable[..., Any] | str
    dtypes: int
    results: list[str]
    meta: str
    casts: Literal["", "TypeError", "RuntimeError"]
    cpu_arguments: bool
    reports: str = ""
    report: str = ""


def decomposition(
    overloads: str,
    body: Callable[..., Any] | str,
    *,
    dtypes: Iterable[torch.dtype] = EVERY,
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
            overloads (`from_` is the argument `from`) but those of out=, and `results`. Or the name
            of such a function in C++ (OUTBOARD_DECOMPOSITION), for operators that programs call
            very often. It returns the results of the functional form, and runs below autograd and
            autocast, on any thread. Operators that it calls may run on the host.
        dtypes: served dtypes of the first tensor.
        condition: a function of arguments, by their names and as symbols, that says which calls are
            served; a body in Python may decline further calls by `require`.
        results: parameter names, with `meta`: the body gets the allocated results and writes them.
        casts: given results of another dtype get converted values; this is the error where PyTorch
            does not cast.
        cpu_arguments: tensors but the first may be on the CPU; else only 0-d tensors may.
        reports: the error of wrong values in kernels that the body launches; default: the errors of
            the called operators.
        meta, alert, family: as in `template`.
    """
    return definition_of(
        Decomposition,
        overloads,
        location=caller_location(),
        condition=condition,
        body=body,
        dtypes=dtype_bits(dtypes),
        results=results.split(),
        meta=meta,
        casts=casts,
        cpu_arguments=cpu_arguments,
        alert=alert,
        family=family,
        **reported(reports),
    )


def require(holds: bool) -> None:
    """Declines the call if the condition does not hold; another kernel then serves it.

    Call it before the body writes to an argument: afterwards declining raises RuntimeError, except
    for inference tensors, whose writes PyTorch does not count.
    """
    if not holds:
        raise _C.Declined
