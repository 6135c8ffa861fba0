"""Types of values in generated kernels, and the source of conversions between them.

A mark, `@`, stands for the number of lanes in sources: `float@` is float16 in the main loop of a
kernel with 16 lanes, and float in its tail. Sources without the mark are scalar.

Bool values are masks: ints of 0 and -1 in vectors, 0 and 1 in scalars.

Floats of 8 bits are stored as bytes and computed in single precision. For scalars and vectors,
kernels call

    ob_unpack_<format>(byte), ob_pack_<format>(value), ob_round_<format>(value)

The byte for a value beyond the largest differs between versions of PyTorch, so PyTorch computes it
here. The formats: OCP 8-bit Floating Point Specification 1.0; with "fnuz", Noune et al., 8-bit
Numerical Formats for Deep Neural Networks, 2022; e8m0fnu, OCP Microscaling Formats 1.0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

import sympy
import torch

from torch_outboard.ops.sources.value_types import (
    SIGNED_TYPES,
    STORAGE_TYPES,
    convert_number,
)

LANES = "@"
MASK = "int"
# A number with a point or an exponent, and no suffix.
LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])")


@dataclass(frozen=True)
class Format:
    """An 8-bit format: sign, exponent bits, mantissa bits; e8m0fnu has only an exponent."""

    mantissa: int
    bias: int
    dtype: torch.dtype

    @property
    def has_negative_zero(self) -> bool:
        return not str(self.dtype).endswith("uz")

    def byte(self, value: float) -> int:
        """The byte that PyTorch's CPU stores for a value."""
        return int(torch.tensor([value]).to(self.dtype).view(torch.uint8).item())


FORMATS = {
    "e4m3fn": Format(3, 7, torch.float8_e4m3fn),
    "e5m2": Format(2, 15, torch.float8_e5m2),
    "e4m3fnuz": Format(3, 8, torch.float8_e4m3fnuz),
    "e5m2fnuz": Format(2, 16, torch.float8_e5m2fnuz),
    "e8m0fnu": Format(0, 127, torch.float8_e8m0fnu),
}
FLOAT8_CALL = re.compile(rf"\bob_(?:pack|unpack|round)_({'|'.join(FORMATS)})(16|8|4|2)?\b")

# Names, in helpers, of floats that are computed in single precision and rounded when stored.
SMALL_FLOATS = {
    torch.float16: "half",
    torch.bfloat16: "bfloat",
    **{known.dtype: name for name, known in FORMATS.items()},
}
# Types in memory, types of values, and the names of dtypes in helpers that load and store.
STORED_TYPES = {
    **{dtype: kind for dtype, kind in STORAGE_TYPES.items() if not dtype.is_complex},
    **{known.dtype: "uchar" for known in FORMATS.values()},
}
VALUE_TYPES = {**STORED_TYPES, **dict.fromkeys(SMALL_FLOATS, "float"), torch.bool: MASK}
STORED_NAMES = {**STORED_TYPES, torch.bool: "bool", **SMALL_FLOATS}

_INFINITY = 0x7F800000  # as float32


def is_vector(source: object) -> bool:
    """Whether source or a variable has a value per lane."""
    return LANES in str(source)


def value_type(dtype: torch.dtype) -> str:
    """The OpenCL C type of values of a dtype.

    Raises:
        NotImplementedError: if kernels do not compute with the dtype.
    """
    if dtype not in VALUE_TYPES:
        raise NotImplementedError(f"kernels of compiled graphs do not compute with {dtype}")
    return VALUE_TYPES[dtype]


def mask_type(dtype: torch.dtype) -> str:
    """The element type of the result of a vector comparison."""
    size = 4 if VALUE_TYPES[dtype] in ("float", MASK) else dtype.itemsize
    return SIGNED_TYPES[size]


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values are computed."""
    return torch.float32 if dtype in SMALL_FLOATS else dtype


def constant(value: float | bool | sympy.Expr, dtype: torch.dtype) -> str:
    """Source of a scalar constant of the dtype's value type."""
    if isinstance(value, sympy.Expr):
        value = float(value) if dtype.is_floating_point else int(value)
    if dtype == torch.bool:
        return "1" if value else "0"
    if dtype.is_floating_point:
        return _floating(float(value), "" if dtype == torch.float64 else "f")
    bits = 8 * dtype.itemsize
    number = int(value) & ((1 << bits) - 1)
    if dtype.is_signed and number >> (bits - 1):
        number -= 1 << bits
    if dtype in _LEAST and number == -(1 << (bits - 1)):
        return _LEAST[dtype]
    source = f"{number}{_SUFFIXES.get(dtype, '')}"
    return f"({source})" if source.startswith("-") else source


# C has no literals for these least numbers.
_LEAST = {torch.int32: "INT_MIN", torch.int64: "LONG_MIN"}
_SUFFIXES = {torch.int64: "L", torch.uint64: "UL", torch.uint32: "U"}


def _floating(value: float, suffix: str) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value) or (suffix and abs(value) > 3.5e38):
        source = "INFINITY" if value > 0 else "-INFINITY"
    else:
        source = f"{value!r}{suffix}"
    return f"({source})" if source.startswith("-") else source


def broadcast(source: str, dtype: torch.dtype) -> str:
    """A scalar in every lane; vectors stay as they are."""
    if is_vector(source):
        return source
    if dtype == torch.bool:
        return f"(({MASK}{LANES})(ob_lane_mask{LANES}({source})))"
    return f"(({value_type(dtype)}{LANES})({source}))"


def convert(value: str, source: torch.dtype, target: torch.dtype) -> str:
    """A value of one dtype as a value of another, with PyTorch's rules for casts."""
    before, after = value_type(source), value_type(target)
    vector = is_vector(value)
    lanes = LANES if vector else ""
    if target == torch.bool:
        if source == torch.bool:
            return value
        return mask_of(f"({value} != (({before}{lanes})(0)))", source, vector)
    if source == torch.bool:
        ones = f"({value} & (({MASK}{lanes})(1)))"
        return ones if after == MASK else f"convert_{after}{lanes}({ones})"
    if before == after:
        return value
    return convert_number(computed_dtype(source), computed_dtype(target), lanes, value)


def mask_of(comparison: str, compared: torch.dtype, vector: bool) -> str:
    """The result of a comparison of values of a dtype, as a bool value."""
    if not vector or mask_type(compared) == MASK:
        return comparison
    return f"convert_{MASK}{LANES}({comparison})"


def mask_for(mask: str, dtype: torch.dtype, vector: bool) -> str:
    """A bool value as a mask that selects between values of a dtype."""
    if not vector or mask_type(dtype) == MASK:
        return mask
    return f"convert_{mask_type(dtype)}{LANES}({mask})"


def at_lanes(source: str, lanes: int) -> str:
    """The source with its marks replaced."""
    return source.replace(LANES, str(lanes) if lanes > 1 else "")


@cache
def float8_source(name: str, lanes: int) -> str:
    """The definitions of a format's functions for vectors of `lanes` values."""
    known = FORMATS[name]
    unpack, pack = (_unpack_exponent, _pack_exponent) if known.mantissa == 0 else (_unpack, _pack)
    end = "" if lanes == 1 else str(lanes)
    lines = [
        f"static inline float# ob_unpack_{name}#(const uchar# bits) {{",
        "  const uint# b = convert_uint#(bits);",
        *unpack(known),
        "}",
        f"static inline uchar# ob_pack_{name}#(const float# value) {{",
        f"  const uint# b = as_uint#(value), f = b & 0x{_INFINITY | 0x7FFFFF:x}u;",
        *pack(known),
        "}",
        f"static inline float# ob_round_{name}#(const float# value) {{",
        f"  return ob_unpack_{name}#(ob_pack_{name}#(value));",
        "}",
    ]
    return "\n".join(lines).replace("#", end) + "\n"


def _unpack(known: Format) -> list[str]:
    m, step = known.mantissa, 2.0 ** (1 - known.bias - known.mantissa)
    infinity, nan = known.byte(math.inf), known.byte(math.nan)
    lines = [
        "  const uint# rest = b & 0x7fu;",
        f"  float# value = as_float#((rest << {23 - m}) + {(127 - known.bias) << 23}u);",
        f"  value = rest < {1 << m}u ? convert_float#(rest) * {step!r}f : value;",
    ]
    if not known.has_negative_zero:
        lines += [f"  value = b == {nan}u ? (float#)(NAN) : value;"]
    elif known.dtype == torch.float8_e5m2:
        first = infinity if infinity > 0x7B else 0x7C  # saturating casts give 0x7B for infinity
        lines += [
            f"  value = rest == {first}u ? (float#)(INFINITY) : value;",
            f"  value = rest > {first}u ? (float#)(NAN) : value;",
        ]
    else:
        lines += [f"  value = rest == {nan}u ? (float#)(NAN) : value;"]
    return [*lines, "  return as_float#(as_uint#(value) | ((b & 0x80u) << 24));"]


def _pack(known: Format) -> list[str]:
    """Rounds to nearest even; adding a power of two rounds subnormal values."""
    shift = 23 - known.mantissa
    least = (128 - known.bias) << 23  # the smallest normal number
    power = (127 - known.bias + shift + 1) << 23
    added = (((known.bias - 127) << 23) + (1 << (shift - 1)) - 1) % (1 << 32)
    largest = torch.finfo(known.dtype).max
    lines = [
        f"  const uint# small = as_uint#(as_float#(f) + as_float#((uint#)({power}u))) - {power}u;",
        f"  uint# r = f < {least}u ? small : (f + {added}u + ((f >> {shift}) & 1u)) >> {shift};",
        f"  r = r > {known.byte(largest)}u ? (uint#)({known.byte(3e38)}u) : r;",
        f"  r = f == {_INFINITY}u ? (uint#)({known.byte(math.inf)}u) : r;",
        f"  r = f > {_INFINITY}u ? (uint#)({known.byte(math.nan)}u) : r;",
    ]
    sign = "r | ((b >> 24) & 0x80u)"
    if not known.has_negative_zero:
        sign = f"r == 0u ? r : {sign}"
    return [*lines, f"  return convert_uchar#({sign});"]


def _unpack_exponent(known: Format) -> list[str]:
    return [
        "  const uint# rest = b == 0u ? (uint#)(0x400000u) : b << 23;",
        "  return b == 255u ? (float#)(NAN) : as_float#(rest);",
    ]


def _pack_exponent(known: Format) -> list[str]:
    """Rounds to the nearest power of two by the mantissa; drops the sign."""
    return [
        "  const uint# exponent = f >> 23, half_way = (uint#)(0x400000u), rest = f & 0x7fffffu;",
        "  const uint# up = (rest > half_way) ? (uint#)(1u)"
        " : (rest == half_way ? min(exponent, (uint#)(1u)) : (uint#)(0u));",
        "  return convert_uchar#(exponent == 255u ? exponent : exponent + up);",
    ]
