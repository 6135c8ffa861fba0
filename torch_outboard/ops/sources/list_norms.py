"""Sources of norms of a list of tensors: macros in front of reductions/list_norms.cl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_outboard.ops.definition import kernel_source
from torch_outboard.ops.sources.calls import selected_call
from torch_outboard.ops.sources.scalar_functions import defines
from torch_outboard.ops.sources.value_types import (
    STORAGE_TYPES,
    load,
    store,
    value_dtype,
    value_type,
    with_functions,
)

if TYPE_CHECKING:
    from torch_outboard._C import ListNormsSource

# By the order of the norm: adds element x to sum a, merges sums a and b, computes the norm.
_STEPS = {
    "1": ("a + x", "a + b", "sum"),
    "2": ("a + x * x", "a + b", "sqrt(sum)"),
    "inf": ("(x > a) | (x != x) ? x : a", "(b > a) | (b != b) ? b : a", "sum"),
}


def list_norms(source: ListNormsSource) -> str:
    """The program source for one dtype."""
    dtype, calls = source.dtype, range(source.calls)
    value, storage = value_dtype(dtype), STORAGE_TYPES[dtype]
    step, both, norm = _STEPS[source.order]
    head = selected_call(
        source.calls, lambda call: f"OB_BIND({storage}, in_{call}) in = in_{call};"
    )
    head += defines(
        {
            "X": storage,
            "S": value_type(value),
            "V": value_type(value, source.width),
            "OB_WIDTH": source.width,
            "OB_CHUNK": source.chunk,
            "OB_PARTS": source.parts,
            "OB_LOCAL": source.local,
            "OB_INPUTS": "".join(f"OB_POINTER({storage}, in_{call}), " for call in calls),
            "OB_STEP(a, x)": f"({step})",
            "OB_BOTH(a, b)": f"({both})",
            "OB_NORM": norm,
            "OB_LOADV(i)": load(dtype, source.width, "in", "i"),
            "OB_LOAD(i)": load(dtype, 1, "in", "i"),
            "OB_STORE(value)": store(dtype, 1, "out", f"call * {source.spacing}", "value"),
            "OB_VSTORE": f"vstore{source.width}",
        }
    )
    return with_functions(head + kernel_source("list_norms"))
