"""Sources of matrix products and convolutions: type, load and store macros before the kernels."""

from __future__ import annotations

import torch

from torch_outboard.ops.sources.scalar_functions import defines
from torch_outboard.ops.sources.value_types import (
    STORAGE_TYPES,
    convert,
    load,
    store,
    value_dtype,
    value_type,
    with_functions,
)


def product(
    dtype: torch.dtype, compute: torch.dtype, width: int, wide: bool, definitions: str, kernels: str
) -> str:
    """The program source of kernels that use the macros of kernels/products/matrix_product.cl.

    Args:
        dtype: the dtype of operands and results.
        compute: the dtype of sums.
        width: lanes of vectors.
        wide: whether indices have 64 bits.
        definitions: further macros.
        kernels: their source.
    """
    loaded = value_dtype(dtype)

    def read(lanes: int) -> str:
        return convert(loaded, compute, lanes, load(dtype, lanes, "(p)", "(i)"))

    def write(lanes: int) -> str:
        return store(dtype, lanes, "(p)", "(i)", convert(compute, loaded, lanes, "(x)"))

    macros: dict[str, str | int] = {
        "X": STORAGE_TYPES[dtype],
        "S": value_type(compute),
        "W": width,
        "V": value_type(compute, width),
        "I": "long" if wide else "int",
        "VLOAD": f"vload{width}",
        "VSTORE": f"vstore{width}",
        "LOAD(p, i)": read(1),
        "LOADV(p, i)": read(width),
        "STORE(p, i, x)": f"{write(1)};",
        "STOREV(p, i, x)": f"{write(width)};",
    }
    return with_functions(defines(macros) + definitions + kernels)
