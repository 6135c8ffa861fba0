"""Products and convolutions by functions of the driver's library, if the driver has them:
definitions for csrc/device_kernels/library.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, Definition, dtype_bits
from torch_outboard.ops.products import convolution, matrix_product

# Dtypes for libraries only: no kernel of the kit computes on them.
FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)  # fmt: skip

# Keys of the sources of the kit's kernels.
_TEXTS = {"source", "padded", "groups"}

# Not matrix products: addr sums over nothing, and vdot conjugates an operand.
_NO_PRODUCTS = {"aten::addr", "aten::vdot"}


def _products() -> list[Definition]:
    activated = matrix_product.product(
        "_addmm_activation _addmm_activation.out",
        "mat1 mat2",
        (2, 2),
        "self",
        FLOATS,
        gelu_flag="use_gelu",
    )
    products = [row for row in matrix_product.definitions() if row.overloads[0] not in _NO_PRODUCTS]
    wide = dtype_bits(FLOAT8)
    return [
        *(
            _of_library(row, "library_product", dtypes=row.properties["dtypes"] | wide)
            for row in products
        ),
        _of_library(activated, "library_product"),
    ]


def _of_library(row: Definition, kind: str, **changed: Any) -> Definition:
    own = {key: value for key, value in row.properties.items() if key not in _TEXTS}
    return replace(row, kind=kind, properties={**own, **changed})


def definitions(functions: Collection[str]) -> list[Definition]:
    """Definitions for a driver's library functions; `functions` has their names in its table."""
    found = _products() if "matrix_product" in functions else []
    if "convolution" in functions:
        found += [_of_library(row, "library_convolution") for row in convolution.definitions()]
    return found
