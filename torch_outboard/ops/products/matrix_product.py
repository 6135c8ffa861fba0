"""Matrix products: definitions for csrc/device_kernels/product/matrix_product.cpp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack, cast

import torch

from torch_outboard.ops.definition import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    Definition,
    Properties,
    caller_location,
    dtype_bits,
    kernel_source,
    qualified,
)
from torch_outboard.ops.products.sources import group_source

ALL = (*FLOATS, *INTEGERS, *COMPLEX)


class ProductProperties(Properties, total=False):
    """Properties described in csrc/device_kernels/product/matrix_product.cpp."""

    integral_scalars: bool
    conjugates_left: bool
    resizes_silently: bool


def product(
    overloads: str,
    operands: str,
    dimensions: str,
    added: str = "",
    dtypes: Iterable[torch.dtype] = ALL,
    **properties: Unpack[ProductProperties],
) -> Definition:
    """Defines a matrix product.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: names of the two arguments that are multiplied.
        dimensions: of the operands and the result, in the letters of matrix_product.cpp, for
            example `"mk,kn->mn"`.
        added: name of the argument that is added.
        dtypes: served dtypes.
    """
    left, right = operands.split()
    factors, _, result = dimensions.partition("->")
    left_dimensions, _, right_dimensions = factors.partition(",")
    return {
        "kind": "matrix_product",
        "location": caller_location(),
        "overloads": qualified(overloads),
        "left": left,
        "right": right,
        "left_dimensions": left_dimensions,
        "right_dimensions": right_dimensions,
        "result_dimensions": result,
        "added": added,
        "dtypes": dtype_bits(dtypes),
        "source": kernel_source("matrix_product"),
        "groups": group_source(),
        **cast("Definition", properties),
    }


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        product("mm mm.out", "self mat2", "mk,kn->mn"),
        product("bmm bmm.out", "self mat2", "bmk,bkn->bmn"),
        product("addmm addmm_ addmm.out", "mat1 mat2", "mk,kn->mn", "self"),
        product("baddbmm baddbmm_ baddbmm.out", "batch1 batch2", "bmk,bkn->bmn", "self"),
        product(
            "addbmm addbmm_ addbmm.out",
            "batch1 batch2",
            "bmk,bkn->mn",
            "self",
            resizes_silently=True,
        ),
        product("mv mv.out", "self vec", "mk,k->m"),
        product("addmv addmv_ addmv.out", "mat vec", "mk,k->m", "self"),
        product("dot dot.out", "self tensor", "k,k->"),
        product("vdot vdot.out", "self other", "k,k->", conjugates_left=True),
        product("addr addr_ addr.out", "vec1 vec2", "m,n->mn", "self", integral_scalars=True),
    ]
