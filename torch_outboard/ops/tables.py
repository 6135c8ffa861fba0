"""Collects all operator definitions and loads them into C++."""

import atexit
import functools
import gc
import threading
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType

from torch_outboard import _C
from torch_outboard.ops.definition import Definition

_lock = threading.RLock()
_loaded = False


# The modules of this package with definitions, and the family of definitions that name no other
# one. Earlier definitions of an overload are tried first.
TABLES = {
    "pointwise.operators": "pointwise",
    "pointwise.optimizers": "pointwise_lists",
    "reductions.reduction": "reduction",
    "products.products": "matrix_product",
    "indexing.gather_scatter": "indexing",
    "indexing.decompositions": "indexing",
    "indexing.advanced_indexing": "indexing",
    "normalization.softmax": "softmax",
    "normalization.norm_layers": "normalization",
    "layers.attention": "attention",
    "layers.transformers": "attention",
    "images.pooling": "pooling",
    "losses.losses": "loss",
    "losses.sequence_losses": "loss",
    "layers.embedding": "embedding",
    "random_numbers.draws": "random",
    "random_numbers.decompositions": "random",
    "reductions.scans": "scan",
    "ordering.sorting": "sorting",
    "ordering.searching": "sorting",
    "ordering.counts": "sorting",
    "movement.rearranging": "movement",
    "movement.padding": "movement",
    "movement.factories": "pointwise",
    "layers.recurrent": "recurrent",
    "images.interpolation": "interpolation",
    "pointwise.special_operators": "pointwise",
    "products.distances": "distance",
    "reductions.segments": "reduction",
}


def definitions() -> list[Definition]:
    """Every definition; of several for an overload the first one that serves a call runs it."""
    collects = gc.isenabled()
    gc.disable()  # nothing here is garbage, and a collection would scan all objects of PyTorch
    try:
        return [
            definition if definition.family else replace(definition, family=family)
            for name, family in TABLES.items()
            for definition in import_module(f"torch_outboard.ops.{name}").definitions()
        ]
    finally:
        if collects:
            gc.enable()


@functools.cache
def families() -> Mapping[str, str]:
    """The family by overload, for overloads with a definition: "aten::add.Tensor": "pointwise"."""
    found: dict[str, str] = {}
    for definition in definitions():
        for overload in definition.overloads:
            found.setdefault(overload, definition.family)
    return MappingProxyType(found)


def load() -> None:
    """Loads the definitions into C++, once; the runtime calls it at its first device kernel."""
    global _loaded
    with _lock:
        if _loaded:
            return
        from torch_outboard.ops import sources
        from torch_outboard.ops.products.products import library_definitions

        compiled = any(map(_C.runs_code, range(_C.device_count())))
        wanted = library_definitions(_C.library_functions()) + (definitions() if compiled else [])
        _C.set_source_writer(sources)
        _C.load_definitions(wanted)
        atexit.register(_C.stop_interpreter_calls)
        _loaded = True
