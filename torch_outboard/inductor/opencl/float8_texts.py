"""Functions of generated kernels between floats of 8 bits, as bytes, and single precision.

    ob_unpack_<format>(byte), ob_pack_<format>(value), ob_round_<format>(value)

for one value and for vectors. Which byte stands for a value beyond the largest differs between
versions of PyTorch, which is asked. The formats: OCP 8-bit Floating Point Specification 1.0; with
"fnuz", Noune et al., 8-bit Numerical Formats for Deep Neural Networks, 2022; e8m0fnu, OCP
Microscaling Formats 1.0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Format:
    """A sign, exponent bits and mantissa bits; e8m0fnu has an exponent alone."""

    mantissa: int
    bias: int
    dtype: torch.dtype

    @property
    def has_negative_zero(self) -> bool:
        return not str(self.dtype).endswith("uz")

    def byte(self, value: float) -> int:
        """What CPU stores for a value."""
        return int(torch.tensor([value]).to(self.dtype).view(torch.uint8).item())


FORMATS = {
    "e4m3fn": Format(3, 7, torch.float8_e4m3fn),
    "e5m2": Format(2, 15, torch.float8_e5m2),
    "e4m3fnuz": Format(3, 8, torch.float8_e4m3fnuz),
    "e5m2fnuz": Format(2, 16, torch.float8_e5m2fnuz),
    "e8m0fnu": Format(0, 127, torch.float8_e8m0fnu),
}
CALL = re.compile(rf"\bob_(?:pack|unpack|round)_({'|'.join(FORMATS)})(16|8|4|2)?\b")

_INFINITY = 0x7F800000


@cache
def float8_text(name: str, lanes: int) -> str:
    """The definitions of a format for so many lanes."""
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
        first = infinity if infinity > 0x7B else 0x7C  # saturated where casts do so
        lines += [
            f"  value = rest == {first}u ? (float#)(INFINITY) : value;",
            f"  value = rest > {first}u ? (float#)(NAN) : value;",
        ]
    else:
        lines += [f"  value = rest == {nan}u ? (float#)(NAN) : value;"]
    return [*lines, "  return as_float#(as_uint#(value) | ((b & 0x80u) << 24));"]


def _pack(known: Format) -> list[str]:
    """Rounds to the nearest, ties to even; the sum with a power of two rounds what is subnormal."""
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
    """To the nearest power of two by the mantissa; the sign is dropped."""
    return [
        "  const uint# exponent = f >> 23, half_way = (uint#)(0x400000u), rest = f & 0x7fffffu;",
        "  const uint# up = (rest > half_way) ? (uint#)(1u)"
        " : (rest == half_way ? min(exponent, (uint#)(1u)) : (uint#)(0u));",
        "  return convert_uchar#(exponent == 255u ? exponent : exponent + up);",
    ]
