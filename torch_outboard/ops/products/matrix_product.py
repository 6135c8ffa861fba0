"""Matrix products: definitions for csrc/device_kernels/product/matrix_product.cpp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

import torch

from torch_outboard.ops.definition import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    Definition,
    caller_location,
    dtype_bits,
    kernel_source,
    qualified,
)
from torch_outboard.ops.products.sources import group_source

ALL = (*FLOATS, *INTEGERS, *COMPLEX)


class ProductProperties(TypedDict, total=False):
    """Properties described in csrc/device_kernels/product."""

    is_outer: bool
    sums_batches: bool
    integral_scalars: bool
    conjugates_left: bool
    resizes_silently: bool
    gelu_flag: str


def product(
    overloads: str,
    operands: str,
    ranks: tuple[int, int],
    added: str = "",
    dtypes: Iterable[torch.dtype] = ALL,
    **properties: Unpack[ProductProperties],
) -> Definition:
    """Defines a matrix product.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: names of the two arguments that are multiplied.
        ranks: their numbers of dimensions: vectors, matrices or batches of matrices.
        added: name of the argument that is added.
        dtypes: served dtypes.
    """
    left, right = operands.split()
    known: dict[str, Any] = {
        "left": left,
        "right": right,
        "left_rank": ranks[0],
        "right_rank": ranks[1],
        "added": added,
        "dtypes": dtype_bits(dtypes),
        "source": kernel_source("matrix_product"),
        "groups": group_source(),
    }
    return Definition(
        "matrix_product", qualified(overloads), {**known, **properties}, caller_location()
    )


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        product("mm mm.out", "self mat2", (2, 2)),
        product("bmm bmm.out", "self mat2", (3, 3)),
        product("addmm addmm_ addmm.out", "mat1 mat2", (2, 2), "self"),
        product("baddbmm baddbmm_ baddbmm.out", "batch1 batch2", (3, 3), "self"),
        product(
            "addbmm addbmm_ addbmm.out",
            "batch1 batch2",
            (3, 3),
            "self",
            sums_batches=True,
            resizes_silently=True,
        ),
        product("mv mv.out", "self vec", (2, 1)),
        product("addmv addmv_ addmv.out", "mat vec", (2, 1), "self"),
        product("dot dot.out", "self tensor", (1, 1)),
        product("vdot vdot.out", "self other", (1, 1), conjugates_left=True),
        product(
            "addr addr_ addr.out", "vec1 vec2", (1, 1), "self", is_outer=True, integral_scalars=True
        ),
    ]
