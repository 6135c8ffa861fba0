"""Types of values in generated kernels, and the text that changes one into another.

A mark, `@`, stands in texts where the number of lanes belongs: `float@` is float16 in the main loop
of a kernel with 16 lanes, and float in its tail. Texts without the mark are of scalars.

Truth values are masks: ints of 0 and -1 in vectors, 0 and 1 in scalars.
"""

from __future__ import annotations

import math

import sympy
import torch

from torch_outboard.inductor.opencl.float8_texts import FORMATS

LANES = "@"
MASK = "int"

# Names in helpers of floats that are computed in single precision and rounded when they are stored.
SMALL_FLOATS = {
    torch.float16: "half",
    torch.bfloat16: "bfloat",
    **{known.dtype: name for name, known in FORMATS.items()},
}
# Of values.
VALUE_TYPES = {
    torch.bool: MASK,
    torch.uint8: "uchar",
    torch.int8: "char",
    torch.int16: "short",
    torch.uint16: "ushort",
    torch.int32: "int",
    torch.uint32: "uint",
    torch.int64: "long",
    torch.uint64: "ulong",
    torch.float32: "float",
    torch.float64: "double",
    **dict.fromkeys(SMALL_FLOATS, "float"),
}
# In memory; the helpers that load and store are named after the dtypes.
STORED_TYPES = {
    **VALUE_TYPES,
    torch.bool: "uchar",
    torch.float16: "half",
    torch.bfloat16: "ushort",
    **{known.dtype: "uchar" for known in FORMATS.values()},
}
STORED_NAMES = {**STORED_TYPES, torch.bool: "bool", **SMALL_FLOATS}

_SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}


def is_vector(text: object) -> bool:
    """Whether a text or variable has a value for each lane."""
    return LANES in str(text)


def value_type(dtype: torch.dtype, vector: bool = False) -> str:
    """The type of values.

    Raises:
        NotImplementedError: if kernels do not compute with the dtype.
    """
    if dtype not in VALUE_TYPES:
        raise NotImplementedError(f"kernels of compiled graphs do not compute with {dtype}")
    return VALUE_TYPES[dtype] + (LANES if vector else "")


def mask_type(dtype: torch.dtype) -> str:
    """The element of what comparing vectors of values gives."""
    return MASK if dtype == torch.bool else _SIGNED[value_bytes(dtype)]


def value_bytes(dtype: torch.dtype) -> int:
    """Size of a value: 4 for small floats and bool."""
    return 4 if VALUE_TYPES[dtype] in ("float", MASK) else dtype.itemsize


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that values are computed in."""
    return torch.float32 if dtype in SMALL_FLOATS else dtype


def constant(value: float | bool | sympy.Expr, dtype: torch.dtype) -> str:
    """A scalar of the dtype's value type."""
    if isinstance(value, sympy.Expr):
        value = float(value) if dtype.is_floating_point else int(value)
    if dtype == torch.bool:
        return "1" if value else "0"
    if dtype.is_floating_point:
        return _floating(float(value), "" if dtype == torch.float64 else "f")
    number = int(value)
    bits = 8 * dtype.itemsize
    number &= (1 << bits) - 1
    if dtype.is_signed and number >> (bits - 1):
        number -= 1 << bits
    text = str(number)
    if dtype == torch.int64:
        # There is no literal for the least number.
        text = "LONG_MIN" if number == -(1 << 63) else f"{number}L"
    elif dtype == torch.uint64:
        text = f"{number}UL"
    elif dtype == torch.int32 and number == -(1 << 31):
        text = "INT_MIN"
    elif dtype == torch.uint32:
        text = f"{number}U"
    return f"({text})" if text.startswith("-") else text


def _floating(value: float, suffix: str) -> str:
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY" if value > 0 else "-INFINITY"
    else:
        text = repr(value)
        if "." not in text and "e" not in text:
            text += ".0"
        if suffix and abs(value) > 3.5e38:
            text = "INFINITY" if value > 0 else "-INFINITY"
        else:
            text += suffix
    return f"({text})" if text.startswith("-") else text


def broadcast(text: str, dtype: torch.dtype) -> str:
    """A scalar in every lane; vectors stay as they are."""
    if is_vector(text):
        return text
    if dtype == torch.bool:
        return f"(({MASK}{LANES})(ob_lane_mask{LANES}({text})))"
    return f"(({value_type(dtype, vector=True)})({text}))"


def convert(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """A value of one dtype as a value of another, with PyTorch's rules for casts."""
    before, after = value_type(source), value_type(target)
    vector = is_vector(text)
    lanes = LANES if vector else ""
    if target == torch.bool:
        if source == torch.bool:
            return text
        return mask_of(f"({text} != (({before}{lanes})(0)))", source, vector)
    if source == torch.bool:
        ones = f"({text} & (({MASK}{lanes})(1)))"
        return ones if after == MASK else f"convert_{after}{lanes}({ones})"
    if before == after:
        return text
    whole = not target.is_floating_point and target != torch.int32 and value_bytes(target) < 8
    if source.is_floating_point and whole:
        # Values in the range of a wide integer wrap, as they do on CPU.
        text = f"convert_long{lanes}({text})"
    return f"convert_{after}{lanes}({text})"


def mask_of(comparison: str, compared: torch.dtype, vector: bool) -> str:
    """What comparing values of a dtype gave, as a truth value."""
    if not vector or mask_type(compared) == MASK:
        return comparison
    return f"convert_{MASK}{LANES}({comparison})"


def mask_for(mask: str, dtype: torch.dtype, vector: bool) -> str:
    """A truth value as a mask for choosing between values of a dtype."""
    if not vector or mask_type(dtype) == MASK:
        return mask
    return f"convert_{mask_type(dtype)}{LANES}({mask})"


def at_lanes(text: str, lanes: int) -> str:
    """The text with its marks replaced."""
    return text.replace(LANES, str(lanes) if lanes > 1 else "")
