"""Concatenated sources of the kernels of products and convolutions."""

from __future__ import annotations

from torch_outboard.ops.definition import kernel_source


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
