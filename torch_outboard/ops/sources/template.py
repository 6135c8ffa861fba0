"""Sources of kernel templates: types, parameters, loads and stores, then the template itself.

kernels/template.cl lists the macros.
"""

from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.ops.sources.scalar_functions import defines, scalar_functions
from torch_outboard.ops.sources.value_types import (
    STORAGE_TYPES,
    convert,
    load,
    store,
    value_dtype,
    value_type,
    with_functions,
)

# Types of elements that kernels only move, by size in bytes.
_ITEM_TYPES = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "ulong2"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateTensor:
    """An operand, a result or a temporary tensor."""

    name: str
    dtype: torch.dtype | None  # None: absent
    items: bool  # moved whole
    strided: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateSource:
    """A program of a kernel template."""

    tensors: list[TemplateTensor]
    scalars: list[str]
    numbers: list[str]
    reals: list[str]
    lists: list[str]
    constants: list[tuple[str, int]]
    kernels: str
    compute: torch.dtype  # of values
    moves_items: bool  # scalars are items
    random: bool
    reports: bool
    wide: bool  # 64-bit indices
    gpu: bool
    width: int  # of vectors; 1 without
    local: int  # size of work-groups
    dimensions: int  # most dimensions of a tensor with sizes and strides
    list_length: int  # most numbers of a list


def template(**fields: Any) -> str:
    """The program source of a kernel template for the dtypes of one kind of call."""
    source = TemplateSource(**fields)
    index = "long" if source.wide else "int"
    head = (
        f"typedef {index} ob_index;\n"
        f"typedef struct {{ ob_index dims; ob_index size[{source.dimensions}];"
        f" ob_index stride[{source.dimensions}]; }} ob_layout;\n"
        f"typedef struct {{ ob_index at[{source.list_length}]; }} ob_list;\n"
    )
    head += defines({"OB_LOCAL": source.local, "OB_GPU": int(source.gpu), "W": source.width})
    head += defines(vector_macros(source.width))
    head += _types(source)
    head += defines({name: f"({number})" for name, number in source.constants})
    head += "".join(_tensor(source, tensor) for tensor in source.tensors)
    head += _parameters(source)
    return with_functions(head + source.kernels)


def vector_macros(lanes: int) -> dict[str, str]:
    """Macros that load and store a vector at an address, and sums and maxima of its elements."""
    elements = [f"(v).s{lane:x}" for lane in range(lanes)] if lanes > 1 else ["(v)"]
    macros = {
        "OB_VLOAD(p)": f"vload{lanes}(0, p)" if lanes > 1 else "(*(p))",
        "OB_VSTORE(v, p)": f"vstore{lanes}(v, 0, p)" if lanes > 1 else "(*(p) = (v))",
    }
    for name, both in (("OB_SUM", "({} + {})"), ("OB_MAX", "fmax({}, {})")):
        values = elements
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [both.format(a, b) for a, b in pairs]
        macros[f"{name}(v)"] = values[0]
    return macros


def _types(source: TemplateSource) -> str:
    if source.moves_items:
        return f"typedef {_ITEM_TYPES[source.compute.itemsize]} V;\n#define R float\n"
    value = value_dtype(source.compute)
    types = scalar_functions(value, source.width, source.kernels)
    types += f"typedef {value_type(value)} V;\n"
    if not value.is_complex:
        lanes = source.width
        while lanes > 1:
            types += f"typedef {value_type(value, lanes)} ob_value{lanes};\n"
            lanes //= 2
    return types + defines(
        {
            "R": "double" if value in (torch.float64, torch.complex128) else "float",
            "OB_FLOATING": int(value.is_floating_point),
            "OB_COMPLEX": int(value.is_complex),
            "OB_DTYPE_BITS": 8 * source.compute.itemsize,
        }
    )


def _storage(tensor: TemplateTensor) -> str:
    if tensor.dtype is None:
        return "uchar"
    return _ITEM_TYPES[tensor.dtype.itemsize] if tensor.items else STORAGE_TYPES[tensor.dtype]


def _tensor(source: TemplateSource, tensor: TemplateTensor) -> str:
    """Types and macros of a tensor in a template."""
    name, storage, dtype = tensor.name, _storage(tensor), tensor.dtype
    given = dtype is not None
    lines = f"#define HAS_{name} {int(given)}\n#define IF_{name}(text) {'text' if given else ''}\n"
    lines += f"typedef {storage} {name}_t;\n"
    if dtype is None:
        return lines
    if tensor.items:
        macros = {f"{name}_load(i)": f"{name}[i]", f"{name}_store(i, v)": f"{name}[i] = (v)"}
        return f"{lines}typedef {storage} {name}_value;\n{defines(macros)}"
    lines += f"typedef {value_type(dtype)} {name}_value;\n"
    own, value, lanes = value_dtype(dtype), value_dtype(source.compute), source.width
    macros = {
        f"{name}_load(i)": f"({load(dtype, 1, name, '(i)')})",
        f"{name}_store(i, v)": store(dtype, 1, name, "(i)", convert(value, own, 1, "(v)")),
    }
    if lanes == 1:
        macros |= {
            f"{name}_load_vector(i)": f"{name}_load(i)",
            f"{name}_store_vector(i, v)": f"{name}_store(i, v)",
        }
    elif not dtype.is_complex:
        loaded = convert(own, value, lanes, f"({load(dtype, lanes, name, '(i)')})")
        stored = convert(value, own, lanes, "(v)")
        macros |= {
            f"{name}_load_vector(i)": f"({loaded})",
            f"{name}_store_vector(i, v)": store(dtype, lanes, name, "(i)", stored),
        }
    return lines + defines(macros)


def _parameters(source: TemplateSource) -> str:
    """OB_PARAMETERS, OB_BEGIN and OB_REPORT; the launch passes arguments in this order."""
    parameters, binds = [], []
    pointers = [(_storage(tensor), tensor.name, tensor.strided) for tensor in source.tensors]
    for storage, name, strided in pointers:
        parameters.append(f"OB_POINTER({storage}, {name})")
        binds.append(f"OB_BIND({storage}, {name})")
        if strided:
            parameters.append(f"const ob_layout {name}_layout")
    parameters += [f"const V {name}" for name in source.scalars]
    parameters += [f"const ob_index {name}" for name in source.numbers]
    parameters += [f"const R {name}" for name in source.reals]
    parameters += [f"const ob_list {name}" for name in source.lists]
    if source.reports:
        parameters.append("OB_POINTER(int, ob_report)")
        binds.append("OB_BIND(int, ob_report)")
    if source.random:
        parameters += ["const ulong ob_seed", "const ulong ob_offset"]
    parameters += ["const ob_index ob_items", "const ob_index ob_step"]
    return defines(
        {
            "OB_REPORT": "ob_report[0] = 1;" if source.reports else "",
            "OB_PARAMETERS": ", ".join(parameters),
            "OB_BEGIN": " ".join(binds),
        }
    )
