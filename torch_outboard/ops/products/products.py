"""Matrix products, convolutions and Fourier transforms: definitions for generators in C++
(csrc/device_kernels/{product,convolution,fourier,library}).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import torch

from torch_outboard.ops.definition import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    REALS,
    Definition,
    caller_location,
    dtype_bits,
    kernel_source,
    qualified,
)

# ---- Sources


def warpgroup_operands(columns: int) -> str:
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


def group_source() -> str:
    """Source of per-work-group products and convolutions, for GPUs."""
    instructions = "".join(map(warpgroup_operands, (64, 128, 256))) + kernel_source("matrix_units")
    units = f"#ifdef MATRIX_UNITS\n{instructions}{kernel_source('matrix_unit_tiles')}#endif\n"
    return kernel_source("group_tiles") + kernel_source("thin_products") + units


def padded_source() -> str:
    """Source of convolutions over the padded layout, for CPUs."""
    return kernel_source("padded_convolution") + kernel_source("winograd_convolution")


def patch_source() -> str:
    """Source of convolutions by products of packed patches."""
    return kernel_source("matrix_product") + kernel_source("convolution")


# ---- Matrix products


@dataclass(kw_only=True, eq=False, repr=False)
class Product(Definition):
    """alpha * left @ right + beta * added, with the arguments `alpha` and `beta` if there are any.

    Operands are vectors, matrices or batches of matrices.
    """

    left: str
    right: str
    left_rank: int  # dimensions of the operands
    right_rank: int
    is_outer: bool = False  # vectors give the rows and columns of the result
    sums_batches: bool = False  # the products of a batch are added up, one after the other
    added: str  # broadcast to the result; "" if nothing is
    dtypes: int
    # Factors of integer products must be integers; otherwise they are truncated.
    integral_scalars: bool = False
    resizes_silently: bool = False  # an output of another size is resized without a warning


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixProduct(Product):
    """A product by the kit's kernels."""

    kind: ClassVar[str] = "matrix_product"
    source: str
    groups: str  # source of the kernels of group_tiles.h
    conjugates_left: bool = False  # the left operand of a complex product is conjugated


@dataclass(kw_only=True, eq=False, repr=False)
class LibraryProduct(Product):
    """A product by the driver's library."""

    kind: ClassVar[str] = "library_product"
    gelu_flag: str = ""  # an argument: GELU of the result, else ReLU; "": no activation


def product(
    overloads: str,
    operands: str,
    ranks: tuple[int, int],
    added: str = "",
    dtypes: Iterable[torch.dtype] = NUMBERS,
    **given: Any,
) -> MatrixProduct:
    """Defines a matrix product.

    Args:
        overloads: names without namespace, separated by blanks.
        operands: names of the two arguments that are multiplied.
        ranks: their numbers of dimensions: vectors, matrices or batches of matrices.
        added: name of the argument that is added.
        dtypes: served dtypes.
        given: further fields of MatrixProduct.
    """
    left, right = operands.split()
    return MatrixProduct(
        overloads=qualified(overloads),
        location=caller_location(),
        left=left,
        right=right,
        left_rank=ranks[0],
        right_rank=ranks[1],
        added=added,
        dtypes=dtype_bits(dtypes),
        source=kernel_source("matrix_product"),
        groups=group_source(),
        **given,
    )


def _matrix_products() -> list[MatrixProduct]:
    """Products of matrices, batches of matrices and vectors."""
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


# ---- Convolutions


@dataclass(kw_only=True, eq=False, repr=False)
class LibraryConvolution(Definition):
    """An operator with the arguments of `convolution` or its backward, by the driver's library."""

    kind: ClassVar[str] = "library_convolution"
    dtypes: int
    plain_dtypes: int  # those of `dtypes` that are served without transposition and dilation alone


@dataclass(kw_only=True, eq=False, repr=False)
class Convolution(LibraryConvolution):
    """The same by the kit's kernels."""

    kind: ClassVar[str] = "convolution"
    source: str  # it begins with that of matrix products
    padded: str  # of padded_program.h and winograd.cpp, for CPUs with large maps
    groups: str  # of group_tiles.h, for GPUs


def _convolutions() -> list[Convolution]:
    return [
        Convolution(
            overloads=qualified(f"{name} {name}_overrideable"),
            family="convolution",
            dtypes=dtype_bits(REALS),
            # As on CPU, only int64 is served with transposition or dilation.
            plain_dtypes=dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
            source=patch_source(),
            padded=padded_source(),
            groups=group_source(),
        )
        for name in ("convolution", "convolution_backward")
    ]


# ---- Fourier transforms


@dataclass(kw_only=True, eq=False, repr=False)
class Fourier(Definition):
    """A discrete Fourier transform."""

    kind: ClassVar[str] = "fourier"
    direction: Literal["complex", "from_real", "to_real"]
    source: str


def _transforms() -> list[Definition]:
    kinds: dict[str, Literal["complex", "from_real", "to_real"]] = {
        "_fft_c2c": "complex", "_fft_r2c": "from_real", "_fft_c2r": "to_real"
    }  # fmt: skip
    return [
        Fourier(
            overloads=qualified(f"{name} {name}.out"),
            family="fourier",
            direction=direction,
            source=kernel_source("fourier"),
        )
        for name, direction in kinds.items()
    ]


# ---- Functions of the driver's library

# Dtypes for libraries only: no kernel of the kit computes on them.
FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)  # fmt: skip


def _library_products() -> list[Definition]:
    activated = product(
        "_addmm_activation _addmm_activation.out", "mat1 mat2", (2, 2), "self", FLOATS
    )
    # Not matrix products: addr sums over nothing, and vdot conjugates an operand.
    products = [p for p in _matrix_products() if not (p.is_outer or p.conjugates_left)]
    wide = dtype_bits(FLOAT8)
    return [
        *(_of_library(each, LibraryProduct, dtypes=each.dtypes | wide) for each in products),
        _of_library(activated, LibraryProduct, gelu_flag="use_gelu"),
    ]


def _of_library(made: Definition, kind: type[Definition], **changed: Any) -> Definition:
    shared = {
        each.name: getattr(made, each.name) for each in fields(kind) if hasattr(made, each.name)
    }
    return kind(**{**shared, "family": "", **changed})


def library_definitions(functions: Collection[str]) -> list[Definition]:
    """Definitions for a driver's library functions; `functions` has their names in its table."""
    found = _library_products() if "matrix_product" in functions else []
    if "convolution" in functions:
        found += [_of_library(each, LibraryConvolution) for each in _convolutions()]
    return found


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [*_matrix_products(), *_convolutions(), *_transforms()]
