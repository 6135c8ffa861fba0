"""Scatter within planes: values return to the indices that pooling read."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torch_outboard.ops.definition import FLOATS, Definition, kernel_source
from torch_outboard.ops.requirements import of_dtype_of
from torch_outboard.ops.symbolic import SymInts, SymTensor
from torch_outboard.ops.template import Body, Plan, template


def plane_scatter(
    overloads: str, values: str, *, meta: str = "", alert: str = ""
) -> Callable[[Body], Definition]:
    """Decorator: makes a function that calls `scatter_planes` an operator definition.

    Args:
        overloads: as in `template`.
        values: the argument that moves to `indices`. If it is not `self`, only the sizes of `self`
            are used.
        meta, alert: as in docs/definitions.md.
    """
    moves_self = values == "self"
    return template(
        overloads,
        source=kernel_source("plane_scatter").replace("source_load", f"{values}_load"),
        dtypes=FLOATS,
        shapes_only=() if moves_self else ("self",),
        accepts={"indices": (torch.int64,)},
        requires={} if moves_self else {"self": of_dtype_of(values)},
        reports=RuntimeError,
        meta=meta,
        alert=alert,
    )


def require_room(plan: Plan, values: SymTensor, plane: SymInts) -> None:
    """Declines values for planes without elements."""
    plan.require((plane.prod() > 0) | (values.numel() == 0))


def scatter_planes(
    plan: Plan, values: SymTensor, plane: SymInts, dimensions: int, *, adds: bool
) -> None:
    """Moves the values of planes to indices in planes of other sizes.

    Args:
        plan: the plan of the call.
        values: the source values.
        plane: the sizes of a plane of the result.
        dimensions: the number of sizes.
        adds: whether values with the same index are summed.
    """
    plan.parameters(inputs=values.shape[-dimensions:].prod(), outputs=plane.prod())
    plan.constants(ADDS=adds)
    plan.launch("plane_scatter", values.shape[:-dimensions].prod())
