"""Collects all operator definitions and loads them into C++."""

from __future__ import annotations

import atexit
import functools
import gc
import threading
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from torch_outboard import _C
from torch_outboard.ops.definition import Definition

_lock = threading.RLock()
_loaded = False


# The modules of this package with definitions; earlier definitions of an overload are tried first.
TABLES = (
    "pointwise.operators",
    "pointwise.optimizers",
    "pointwise.loss_scaling",
    "reductions.reduction",
    "reductions.complex_reductions",
    "products.matrix_product",
    "products.convolution",
    "indexing.gather_scatter",
    "indexing.decompositions",
    "indexing.advanced_indexing",
    "normalization.softmax",
    "normalization.norm_layers",
    "normalization.weight_norm",
    "layers.attention",
    "layers.transformers",
    "images.max_pooling",
    "images.average_pooling",
    "images.adaptive_pooling",
    "losses.element_losses",
    "losses.class_losses",
    "losses.sequence_losses",
    "layers.embedding",
    "random_numbers.draws",
    "random_numbers.decompositions",
    "random_numbers.rejection",
    "reductions.scans",
    "ordering.sorting",
    "ordering.searching",
    "ordering.sets",
    "ordering.counts",
    "ordering.histograms",
    "movement.joining",
    "movement.rearranging",
    "movement.padding",
    "movement.factories",
    "layers.recurrent",
    "images.interpolation",
    "pointwise.special_operators",
    "images.grid_sampling",
    "pointwise.gated_linear",
    "products.distances",
    "products.fourier",
    "reductions.segments",
)


def definitions() -> list[Definition]:
    """Every definition; of several for an overload the first one that serves a call runs it."""
    collects = gc.isenabled()
    gc.disable()  # nothing here is garbage, and a collection would scan all objects of PyTorch
    try:
        modules = (import_module(f"torch_outboard.ops.{name}") for name in TABLES)
        return [definition for module in modules for definition in module.definitions()]
    finally:
        if collects:
            gc.enable()


@functools.cache
def families() -> Mapping[str, str]:
    """The family by overload, for overloads with a definition: "aten::add.Tensor": "pointwise"."""
    found: dict[str, str] = {}
    for definition in definitions():
        for overload in cast("list[str]", definition["overloads"]):
            found.setdefault(overload, str(definition.get("family", definition["kind"])))
    return MappingProxyType(found)


def load() -> None:
    """Loads the definitions into C++, once; the runtime calls it at its first device kernel."""
    global _loaded
    with _lock:
        if _loaded:
            return
        from torch_outboard.ops import sources
        from torch_outboard.ops.products import library

        compiled = any(map(_C.runs_code, range(_C.device_count())))
        wanted = library.definitions(_C.library_functions()) + (definitions() if compiled else [])
        _C.set_source_writer(sources)
        _C.load_definitions(wanted)
        atexit.register(_C.stop_interpreter_calls)
        _loaded = True
