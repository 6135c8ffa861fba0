"""Matrix products, convolutions and Fourier transforms: definitions for generators in C++
(csrc/device_kernels/{product,convolution,fourier,library}).
"""

import cmath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    REALS,
    Definition,
    caller_location,
    dtype_bits,
    qualified,
)
from torch_outboard.ops.symbolic import SymInt, SymTensor

# ---- Matrix products


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixProduct(Definition):
    """alpha * left @ right + beta * added, by the kit's kernels.

    The summand and the factors are arguments of operators with `beta`. Operands are vectors,
    matrices or batches of matrices.
    """

    kind: ClassVar[str] = "matrix_product"
    left_rank: int  # dimensions of the operands
    right_rank: int
    dtypes: int


@dataclass(kw_only=True, eq=False, repr=False)
class LibraryProduct(MatrixProduct):
    """The same by the driver's library; with `use_gelu` GELU or ReLU of the result."""

    kind: ClassVar[str] = "library_product"


_PRODUCTS = {
    "mm mm.out": (2, 2),
    "bmm bmm.out": (3, 3),
    "addmm addmm_ addmm.out": (2, 2),
    "baddbmm baddbmm_ baddbmm.out": (3, 3),
    "mv mv.out": (2, 1),
    "addmv addmv_ addmv.out": (2, 1),
    "dot dot.out": (1, 1),
}


def _matrix_products(
    kind: type[MatrixProduct],
    ranks: Mapping[str, tuple[int, int]] = _PRODUCTS,
    dtypes: Iterable[torch.dtype] = NUMBERS,
) -> list[Definition]:
    """Products of matrices, batches of matrices and vectors."""
    return [
        kind(
            overloads=qualified(overloads),
            location=caller_location(),
            left_rank=left,
            right_rank=right,
            dtypes=dtype_bits(dtypes),
        )
        for overloads, (left, right) in ranks.items()
    ]


def _addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: float, alpha: float) -> Tensor:
    """A sum over a batch is a sum over longer rows."""
    require(batch1.dim() == batch2.dim() == 3 and self.dtype == batch1.dtype == batch2.dtype)
    b, m, k = batch1.shape
    require(batch2.shape[:2] == (b, k))
    require(cmath.isfinite(alpha))  # CPU multiplies each product of the batch by it
    left = batch1.transpose(0, 1).reshape(m, b * k)
    return torch.addmm(self, left, batch2.reshape(b * k, batch2.size(2)), beta=beta, alpha=alpha)


def _shape_of_product(a: SymTensor, b: SymTensor) -> list[SymInt]:
    return [a.size(-2), b.size(-1)]


def _addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: float, alpha: float) -> Tensor:
    require(vec1.dim() == vec2.dim() == 1 and self.dtype == vec1.dtype == vec2.dtype)
    kinds = (type(alpha), type(beta))
    require(bool not in kinds)
    require(kinds == (int, int) or self.is_floating_point() or self.is_complex())
    added = self if beta == 1 else torch.zeros_like(self) if beta == 0 else self * beta
    shape = (vec1.numel(), vec2.numel())
    return torch.addcmul(added.expand(shape), vec1.unsqueeze(1), vec2, value=alpha)


def _vdot(self: Tensor, other: Tensor) -> Tensor:
    require(self.dim() == 1 and other.shape == self.shape and other.dtype == self.dtype)
    return torch.dot(self.conj(), other)


# ---- Convolutions


@dataclass(kw_only=True, eq=False, repr=False)
class Convolution(Definition):
    """An operator with the arguments of `convolution` or its backward, by the kit's kernels."""

    kind: ClassVar[str] = "convolution"
    dtypes: int
    plain_dtypes: int  # those of `dtypes` that are served without transposition and dilation alone


@dataclass(kw_only=True, eq=False, repr=False)
class LibraryConvolution(Convolution):
    """The same by the driver's library."""

    kind: ClassVar[str] = "library_convolution"


def _convolutions(kind: type[Convolution], family: str) -> list[Definition]:
    return [
        kind(
            overloads=qualified(f"{name} {name}_overrideable"),
            family=family,
            dtypes=dtype_bits(REALS),
            # As on CPU, only int64 is served with transposition or dilation.
            plain_dtypes=dtype_bits(dtype for dtype in INTEGERS if dtype != torch.int64),
        )
        for name in ("convolution", "convolution_backward")
    ]


# ---- Fourier transforms


@dataclass(kw_only=True, eq=False, repr=False)
class Fourier(Definition):
    """A discrete Fourier transform."""

    kind: ClassVar[str] = "fourier"


def _transforms() -> list[Definition]:
    return [
        Fourier(overloads=qualified(f"{name} {name}.out"), family="fourier")
        for name in ("_fft_c2c", "_fft_r2c", "_fft_c2r")
    ]


# ---- Functions of the driver's library

# Dtypes for libraries only: no kernel of the kit computes on them.
FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)  # fmt: skip


def library_definitions(functions: Collection[str]) -> list[Definition]:
    """Definitions for a driver's library functions; `functions` has their names in its table."""
    found: list[Definition] = []
    if "matrix_product" in functions:
        activated = {"_addmm_activation _addmm_activation.out": (2, 2)}
        found += _matrix_products(LibraryProduct, dtypes=(*NUMBERS, *FLOAT8))
        found += _matrix_products(LibraryProduct, activated, FLOATS)
    if "convolution" in functions:
        found += _convolutions(LibraryConvolution, "")
    return found


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *_matrix_products(MatrixProduct),
        decomposition("addbmm", _addbmm, dtypes=NUMBERS),
        # The host resizes an output, without PyTorch's warning.
        decomposition(
            "addbmm_",
            _addbmm,
            dtypes=NUMBERS,
            condition=lambda self, batch1, batch2: self.shape == _shape_of_product(batch1, batch2),
        ),
        decomposition(
            "addbmm.out",
            _addbmm,
            dtypes=NUMBERS,
            condition=lambda batch1, batch2, out: out.shape == _shape_of_product(batch1, batch2),
        ),
        decomposition("addr addr_ addr.out", _addr, dtypes=NUMBERS),
        decomposition("vdot vdot.out", _vdot, dtypes=NUMBERS),
        *_convolutions(Convolution, "convolution"),
        *_transforms(),
    ]
