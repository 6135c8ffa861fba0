"""Texts that the kernels of products and of convolutions are made of, one behind the other."""

from __future__ import annotations

from torch_outboard.ops.row import template


def group_text() -> str:
    """Of products and convolutions by groups of work items, for GPUs."""
    return "".join(
        map(template, ("matrix_units", "group_tiles", "thin_products", "matrix_unit_tiles"))
    )


def plane_text() -> str:
    """Of convolutions over planes, for processors."""
    return template("plane_convolution") + template("winograd_convolution")


def patch_text() -> str:
    """Of convolutions that are products of packed patches."""
    return template("matrix_product") + template("convolution")
