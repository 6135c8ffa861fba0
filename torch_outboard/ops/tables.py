"""All tables together, and how they reach the engines."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from torch_outboard import _C
from torch_outboard.ops.row import Row

_lock = threading.RLock()
_handed_over = False


# The modules of this package with tables; earlier rows of an overload are tried first.
TABLES = (
    "pointwise",
    "optimizers",
    "loss_scaling",
    "reduction",
    "complex_reductions",
    "matrix_product",
    "convolution",
    "indexing",
    "advanced_indexing",
    "softmax",
    "normalization",
    "weight_norm",
    "attention",
    "transformers",
    "max_pooling",
    "average_pooling",
    "adaptive_pooling",
    "losses",
    "sequence_losses",
    "embedding",
    "random_numbers",
    "random_composed",
    "rejection",
    "scans",
    "sorting",
    "searching",
    "histograms",
    "joining",
    "movement",
    "padding",
    "factories",
    "recurrent",
    "interpolation",
    "special",
    "grid_sampling",
    "gated_linear",
    "distances",
    "fourier",
    "segments",
)


def rows() -> list[Row]:
    """Every row; of those for one overload the first that serves a call takes it."""
    modules = (import_module(f"torch_outboard.ops.{name}") for name in TABLES)
    return [row for module in modules for row in module.rows()]


@functools.cache
def families() -> Mapping[str, str]:
    """The family of each overload that has a row: "pointwise" of "aten::add.Tensor"."""
    found: dict[str, str] = {}
    for row in rows():
        for overload in cast("list[str]", row["overloads"]):
            found.setdefault(overload, str(row.get("family", row["engine"])))
    return MappingProxyType(found)


def hand_over() -> None:
    """Gives the tables to C++, once; the runtime asks for it at the first use of a device."""
    global _handed_over
    with _lock:
        if _handed_over:
            return
        from torch_outboard.ops import scalar_functions

        _C.hand_over_tables(scalar_functions.texts(), rows())
        _handed_over = True
