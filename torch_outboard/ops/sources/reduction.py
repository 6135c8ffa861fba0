"""Sources of reductions: the state and its functions, then reductions/reduction.cl; and of norms of
lists: macros, then reductions/list_norms.cl."""

from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.ops.definition import kernel_source
from torch_outboard.ops.sources.scalar_functions import defines, selected_call
from torch_outboard.ops.sources.value_types import (
    STORAGE_TYPES,
    convert,
    load,
    mask_type,
    store,
    value_dtype,
    value_type,
    with_functions,
)

# Least and greatest values, by dtype.
_LIMITS = {torch.int32: ("INT_MIN", "INT_MAX"), torch.int64: ("LONG_MIN", "LONG_MAX")}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReductionSource:
    """A program of a reduction; the first seven fields are those of its definition."""

    state: list[str]
    initial: str
    step: str
    merge: str
    results: list[str]
    indices: list[bool]
    parameters: list[str]
    input: torch.dtype
    compute: torch.dtype
    outputs: list[torch.dtype]
    group_lanes: int  # 1: no kernels with shared work
    wide_index: bool  # 64-bit
    width: int  # elements of a vector, also of indices, which are int
    dimensions: int  # most reduced, and most other dimensions
    columns: int  # vectors per work-item in the kernel `across`


def reduction(**fields: Any) -> str:
    """The program source of all kernels of a reduction over one dtype."""
    source = ReductionSource(**fields)
    compute = value_type(source.compute)
    lowest, highest = _LIMITS.get(source.compute, ("(-INFINITY)", "INFINITY"))
    outputs = range(len(source.outputs))
    types = [STORAGE_TYPES[dtype] for dtype in source.outputs]
    # n in the dtype of the sums. For a complex dtype it is (n, 0), and results divide by n.x.
    count = convert(torch.int64, source.compute, 1, "(long)n")
    head = defines(
        {
            "OB_INDEX": "ulong" if source.wide_index else "uint",
            "OB_WIDTH": source.width,
            "OB_LOCAL": source.group_lanes,
            "OB_COLUMNS": source.columns,
            "OB_DIMENSIONS": source.dimensions,
            "OB_INPUT": STORAGE_TYPES[source.input],
            "OB_PARAMETERS": "".join(f", const {compute} {name}" for name in source.parameters),
            "OB_ARGUMENTS": "".join(f", {name}" for name in source.parameters),
            "OB_LOWEST": lowest,
            "OB_HIGHEST": highest,
            "C(x)": "((T)(x))",
            "OB_LANES": f"(index_wide)({', '.join(map(str, range(source.width)))})",
            "OB_OUTPUTS": len(source.outputs),
            "OB_POINTERS": "".join(f", OB_POINTER({types[k]}, out{k})" for k in outputs),
            "OB_BINDS": " ".join(f"OB_BIND({types[k]}, out{k})" for k in outputs),
            "OB_WRITE": " ".join(
                f"write{k}(out{k}, kept_offset(layout.output[{k}], k, &layout), &s, "
                "count_value OB_ARGUMENTS);"
                for k in outputs
            ),
            "OB_COUNT": f"const {compute} count_value = {count};",
        }
    )
    # State and functions for vectors, then for scalars: expressions of results are scalar.
    states = _state(source, source.width, "wide") + _state(source, 1, "one")
    writes = "".join(_write(source, k) for k in outputs)
    return with_functions(head + states + _lane(source) + writes + kernel_source("reduction"))


def _state(source: ReductionSource, lanes: int, name: str) -> str:
    mask = mask_type(source.compute, lanes)
    wide = lanes > 1
    types = defines(
        {
            "T": value_type(source.compute, lanes),
            "M": mask,
            "I": f"int{lanes}" if wide else "int",
            "OB_INDEX_MASK(m)": f"convert_int{lanes}(m)" if wide else "(m)",
            "OB_VALUE_MASK(m)": f"convert_{mask}(m)" if wide else "(m)",
        }
    )
    undefined = "".join(
        f"#undef {macro}\n" for macro in ("T", "M", "I", "OB_INDEX_MASK", "OB_VALUE_MASK")
    )
    read = value_dtype(source.input)
    fields = "".join(f" {field};" for field in source.state)
    return f"""\
{undefined}{types}\
typedef struct {{{fields} }} state_{name};
typedef T value_{name};
typedef I index_{name};
static inline void initial_{name}(state_{name} *s) {{ {source.initial} }}
static inline void step_{name}(state_{name} *s, const T x, const I i OB_PARAMETERS) {{
  {source.step}
}}
static inline void merge_{name}(state_{name} *s, const state_{name} *t) {{ {source.merge} }}
static inline T load_{name}(__global const OB_INPUT *p, OB_INDEX at) {{
  const {value_type(read, lanes)} x = {load(source.input, lanes, "p", "at")};
  return {convert(read, source.compute, lanes, "x")};
}}
"""


def _lane(source: ReductionSource) -> str:
    """One lane of a state for vectors; a field is `T name` or `I name`."""
    lines = ""
    for field in source.state:
        kind, _, name = field.partition(" ")
        element = "int" if kind == "I" else value_type(source.compute)
        lines += f"  one.{name} = ((const {element} *)&s->{name})[k];\n"
    return (
        "static inline state_one lane_of_wide(const state_wide *s, const uint k) {\n"
        f"  state_one one;\n{lines}  return one;\n}}\n"
    )


def _write(source: ReductionSource, k: int) -> str:
    output, compute = source.outputs[k], value_type(source.compute)
    stored = value_dtype(output)
    result = torch.int32 if source.indices[k] else source.compute
    fields = "".join(
        f"  const {'int' if field[0] == 'I' else compute} {field[2:]} = s->{field[2:]};\n"
        for field in source.state
    )
    return f"""\
static inline void write{k}(__global {STORAGE_TYPES[output]} *p, const OB_INDEX at,
                          const state_one *s, const {compute} n OB_PARAMETERS) {{
{fields}\
  const {value_type(result)} result = {source.results[k]};
  const {value_type(stored)} value = {convert(result, stored, 1, "result")};
  {store(output, 1, "p", "at", "value")};
}}
"""


# ---- Norms of a list of tensors

# By the order of the norm: adds element x to sum a, merges sums a and b, computes the norm.
_STEPS = {
    "1": ("a + x", "a + b", "sum"),
    "2": ("a + x * x", "a + b", "sqrt(sum)"),
    "inf": ("(x > a) | (x != x) ? x : a", "(b > a) | (b != b) ? b : a", "sum"),
}


def list_norms(
    order: str, dtype: torch.dtype, calls: int, width: int, chunk: int, parts: int, local: int,
    spacing: int,
) -> str:  # fmt: skip
    """The program source for one dtype.

    Args:
        order: "1", "2" or "inf".
        calls: tensors per launch.
        width: elements of a vector.
        chunk: elements per work-item and part.
        parts: per work-group.
        local: work-items per work-group.
        spacing: elements between norms.
    """
    value, storage = value_dtype(dtype), STORAGE_TYPES[dtype]
    step, both, norm = _STEPS[order]
    head = selected_call(calls, lambda call: f"OB_BIND({storage}, in_{call}) in = in_{call};")
    head += defines(
        {
            "X": storage,
            "S": value_type(value),
            "V": value_type(value, width),
            "OB_WIDTH": width,
            "OB_CHUNK": chunk,
            "OB_PARTS": parts,
            "OB_LOCAL": local,
            "OB_INPUTS": "".join(f"OB_POINTER({storage}, in_{call}), " for call in range(calls)),
            "OB_STEP(a, x)": f"({step})",
            "OB_BOTH(a, b)": f"({both})",
            "OB_NORM": norm,
            "OB_LOADV(i)": load(dtype, width, "in", "i"),
            "OB_LOAD(i)": load(dtype, 1, "in", "i"),
            "OB_STORE(value)": store(dtype, 1, "out", f"call * {spacing}", "value"),
            "OB_VSTORE": f"vstore{width}",
        }
    )
    return with_functions(head + kernel_source("list_norms"))
