"""The source of Fourier transforms: types in front of a file of kernels."""

from __future__ import annotations

import torch

from torch_outboard.ops.sources.scalar_functions import defines
from torch_outboard.ops.sources.value_types import value_type


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
    macros: dict[str, str | int] = {"OB_LANES": lanes, "OB_DIMENSIONS": dimensions}
    if real == torch.float64:
        macros["OB_DOUBLE"] = ""
    return head + defines(macros) + kernels
