"""Matrix products, convolutions and Fourier transforms: definitions for generators in C++
(csrc/device_kernels/{product,convolution,fourier,library}).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

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


@dataclass(frozen=True)
class Product:
    """A matrix product; csrc/device_kernels/product describes further properties.

    Attributes:
        overloads: names without namespace, separated by blanks.
        operands: names of the two arguments that are multiplied.
        ranks: their numbers of dimensions: vectors, matrices or batches of matrices.
        added: name of the argument that is added.
        dtypes: served dtypes.
    """

    overloads: str
    operands: str
    ranks: tuple[int, int]
    added: str = ""
    dtypes: Iterable[torch.dtype] = NUMBERS
    is_outer: bool = False
    sums_batches: bool = False
    integral_scalars: bool = False
    conjugates_left: bool = False
    resizes_silently: bool = False
    gelu_flag: str = ""

    def definition(self) -> Definition:
        left, right = self.operands.split()
        properties: dict[str, Any] = {
            "left": left,
            "right": right,
            "left_rank": self.ranks[0],
            "right_rank": self.ranks[1],
            "added": self.added,
            "dtypes": dtype_bits(self.dtypes),
            "is_outer": self.is_outer,
            "sums_batches": self.sums_batches,
            "integral_scalars": self.integral_scalars,
            "conjugates_left": self.conjugates_left,
            "resizes_silently": self.resizes_silently,
            **({"gelu_flag": self.gelu_flag} if self.gelu_flag else {}),
            "source": kernel_source("matrix_product"),
            "groups": group_source(),
        }
        return Definition(
            "matrix_product", qualified(self.overloads), properties, caller_location()
        )


def _matrix_products() -> list[Product]:
    """Products of matrices, batches of matrices and vectors."""
    return [
        Product("mm mm.out", "self mat2", (2, 2)),
        Product("bmm bmm.out", "self mat2", (3, 3)),
        Product("addmm addmm_ addmm.out", "mat1 mat2", (2, 2), "self"),
        Product("baddbmm baddbmm_ baddbmm.out", "batch1 batch2", (3, 3), "self"),
        Product(
            "addbmm addbmm_ addbmm.out",
            "batch1 batch2",
            (3, 3),
            "self",
            sums_batches=True,
            resizes_silently=True,
        ),
        Product("mv mv.out", "self vec", (2, 1)),
        Product("addmv addmv_ addmv.out", "mat vec", (2, 1), "self"),
        Product("dot dot.out", "self tensor", (1, 1)),
        Product("vdot vdot.out", "self other", (1, 1), conjugates_left=True),
        Product(
            "addr addr_ addr.out", "vec1 vec2", (1, 1), "self", is_outer=True, integral_scalars=True
        ),
    ]


# ---- Convolutions


def convolution(overloads: str) -> Definition:
    """An operator definition; overloads have the arguments of `convolution` or its backward."""
    properties: dict[str, Any] = {
        "dtypes": dtype_bits(REALS),
        # As on CPU, only int64 is served with transposition or dilation.
        "plain_dtypes": dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
        "source": patch_source(),
        "padded": padded_source(),
        "groups": group_source(),
    }
    return Definition("convolution", qualified(overloads), properties, family="convolution")


def _convolutions() -> list[Definition]:
    return [
        convolution("convolution convolution_overrideable"),
        convolution("convolution_backward convolution_backward_overrideable"),
    ]


# ---- Fourier transforms


def _transforms() -> list[Definition]:
    kinds = {"_fft_c2c": "complex", "_fft_r2c": "from_real", "_fft_c2r": "to_real"}
    source = kernel_source("fourier")
    return [
        Definition(
            "fourier",
            qualified(f"{name} {name}.out"),
            {"direction": kind, "source": source},
            family="fourier",
        )
        for name, kind in kinds.items()
    ]


# ---- Functions of the driver's library

# Dtypes for libraries only: no kernel of the kit computes on them.
FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)  # fmt: skip

# Properties with sources of the kit's kernels.
_SOURCES = {"source", "padded", "groups"}


def _library_products() -> list[Definition]:
    activation = Product(
        "_addmm_activation _addmm_activation.out",
        "mat1 mat2",
        (2, 2),
        "self",
        FLOATS,
        gelu_flag="use_gelu",
    )
    # Not matrix products: addr sums over nothing, and vdot conjugates an operand.
    products = [p for p in _matrix_products() if not (p.is_outer or p.conjugates_left)]
    wide = dtype_bits(FLOAT8)
    return [
        *(
            _of_library(
                product.definition(), "library_product", dtypes=dtype_bits(product.dtypes) | wide
            )
            for product in products
        ),
        _of_library(activation.definition(), "library_product"),
    ]


def _of_library(definition: Definition, kind: str, **changed: Any) -> Definition:
    shared = {key: value for key, value in definition.properties.items() if key not in _SOURCES}
    return replace(definition, kind=kind, properties={**shared, **changed}, family="")


def library_definitions(functions: Collection[str]) -> list[Definition]:
    """Definitions for a driver's library functions; `functions` has their names in its table."""
    found = _library_products() if "matrix_product" in functions else []
    if "convolution" in functions:
        found += [_of_library(each, "library_convolution") for each in _convolutions()]
    return found


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    products = (product.definition() for product in _matrix_products())
    return [*products, *_convolutions(), *_transforms()]
