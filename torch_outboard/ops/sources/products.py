"""Sources of matrix products, convolutions and Fourier transforms: types and macros."""

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
        "ITEM": "const I item = get_global_id(0); if (item >= items) return;",
        "VLOAD": f"vload{width}",
        "VSTORE": f"vstore{width}",
        "LOAD(p, i)": read(1),
        "LOADV(p, i)": read(width),
        "STORE(p, i, x)": f"{write(1)};",
        "STOREV(p, i, x)": f"{write(width)};",
    }
    return with_functions(defines(macros) + definitions + kernels)


def fourier(real: torch.dtype, lanes: int, wide: bool, dimensions: int, kernels: str) -> str:
    """The program source of kernels.

    Args:
        real: the dtype of real and imaginary parts.
        lanes: complex values per vector.
        wide: whether indices have 64 bits.
        dimensions: the largest number of dimensions of a tensor.
        kernels: their source.
    """
    index, unsigned = ("long", "ulong") if wide else ("int", "uint")
    head = (
        f"typedef {value_type(real)} S;\n"
        f"typedef {value_type(real.to_complex())} V;\n"
        f"typedef {value_type(real, 2 * lanes)} L;\n"
        f"typedef {index} ob_index;\ntypedef {unsigned} ob_unsigned;\n"
    )
    macros: dict[str, str | int] = {
        "OB_LANES": lanes,
        "OB_DIMENSIONS": dimensions,
        "ITEM(items)": "const ob_index i = get_global_id(0); if (i >= (items)) return;",
    }
    if real == torch.float64:
        macros["OB_DOUBLE"] = ""
    return head + defines(macros) + kernels
