"""Sources of matrix products, convolutions and Fourier transforms: types and macros."""

from collections.abc import Callable

import torch

from torch_outboard.ops.definition import kernel_source
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


def _warpgroup_operands(columns: int) -> str:
    """Macros for the operands of wgmma with a tile of `columns` columns, in matrix_units.cl."""
    sums = columns // 2
    numbers = ", ".join(f"%{i}" for i in range(sums))
    operands = ", ".join(f'"+f"((s)[{i // 4}][{i % 4}])' for i in range(sums))
    return (
        f"#if UNIT_COLUMNS == {columns}\n"
        f'#define WARPGROUP_COLUMNS "{columns}"\n'
        f'#define WARPGROUP_SUMS "{numbers}"\n'
        f'#define WARPGROUP_DESCRIPTORS "%{sums}, %{sums + 1}"\n'
        f"#define WARPGROUP_OPERANDS(s) {operands}\n"
        "#endif\n"
    )


def _group_tiles() -> str:
    """Products and convolutions by work-groups, for GPUs."""
    instructions = "".join(map(_warpgroup_operands, (64, 128, 256))) + kernel_source("matrix_units")
    units = f"#ifdef MATRIX_UNITS\n{instructions}{kernel_source('matrix_unit_tiles')}#endif\n"
    return kernel_source("group_tiles") + kernel_source("thin_products") + units


_KERNELS: dict[str, Callable[[], str]] = {
    "matrix_product": lambda: kernel_source("matrix_product"),
    # Convolutions by products of packed patches; over the padded layout, for CPUs.
    "patches": lambda: kernel_source("matrix_product") + kernel_source("convolution"),
    "padded": lambda: kernel_source("padded_convolution") + kernel_source("winograd_convolution"),
    "group_tiles": _group_tiles,
}


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
        kernels: their name, a key of _KERNELS.
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
    return with_functions(defines(macros) + definitions + _KERNELS[kernels]())


def fourier(real: torch.dtype, lanes: int, wide: bool, dimensions: int) -> str:
    """The program source of kernels/products/fourier.cl.

    Args:
        real: the dtype of real and imaginary parts.
        lanes: complex values per vector.
        wide: whether indices have 64 bits.
        dimensions: the largest number of dimensions of a tensor.
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
    return head + defines(macros) + kernel_source("fourier")
