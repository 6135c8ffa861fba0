"""Dtypes in OpenCL C: storage types, value types, and expressions that load, convert and store.

The value type of a dtype is its own type in OpenCL C, with these exceptions: float for float16 and
bfloat16, uchar (0 or 1) for bool, float2 and double2 for complex dtypes. Only real value types have
vectors.
"""

import re

import torch

_SMALL_FLOATS = {torch.float16: "half", torch.bfloat16: "ushort"}
_NUMBERS = {
    torch.uint8: "uchar", torch.int8: "char", torch.int16: "short", torch.uint16: "ushort",
    torch.int32: "int", torch.uint32: "uint", torch.int64: "long", torch.uint64: "ulong",
    torch.float32: "float", torch.float64: "double",
}  # fmt: skip
_COMPLEX = {torch.complex64: "float2", torch.complex128: "double2"}
# Types of elements in memory.
STORAGE_TYPES = {torch.bool: "uchar", **_NUMBERS, **_SMALL_FLOATS, **_COMPLEX}
_VALUE_TYPES = {**STORAGE_TYPES, **dict.fromkeys(_SMALL_FLOATS, "float")}
# Signed integer types by size in bytes.
SIGNED_TYPES = {1: "char", 2: "short", 4: "int", 8: "long"}


def value_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which kernels compute with values of a dtype."""
    return torch.float32 if dtype in _SMALL_FLOATS else dtype


def value_type(dtype: torch.dtype, lanes: int = 1) -> str:
    """The value type: `float` for bfloat16, `float2` for complex64, `int8` for 8 lanes of int32."""
    return _VALUE_TYPES[dtype] + _suffix(lanes)


def mask_type(dtype: torch.dtype, lanes: int = 1) -> str:
    """The type of comparisons of values of a dtype.

    Scalars: `int`, 1 for true. Vectors: signed integers of the elements' size, -1 for true.
    """
    return "int" if lanes == 1 else SIGNED_TYPES[value_dtype(dtype).itemsize] + _suffix(lanes)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex dtype; other dtypes are returned unchanged."""
    return dtype.to_real() if dtype.is_complex else dtype


def is_integer(dtype: torch.dtype) -> bool:
    """Whether a dtype is an integer type; bool is not."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def load(dtype: torch.dtype, lanes: int, pointer: str, index: str, *, aligned: bool = False) -> str:
    """Expression: the values of `lanes` elements from `pointer[index]` on.

    Args:
        aligned: the address is a multiple of the vector's size, so that one access suffices.
    """
    if lanes == 1:
        if dtype == torch.float16:
            return f"vload_half({index}, {pointer})"
        element = f"{pointer}[{index}]"
        if dtype == torch.bool:
            return f"((uchar)({element} != 0))"
        return f"as_float((uint){element} << 16)" if dtype == torch.bfloat16 else element
    storage = "ushort" if dtype == torch.float16 else STORAGE_TYPES[dtype]
    address = f"{pointer} + {index}"
    if aligned:
        raw = f"(*(const __global {storage}{lanes} *)({address}))"
    elif dtype == torch.float16:
        raw = f"vload{lanes}(0, (const __global ushort *)({address}))"
    else:
        raw = f"vload{lanes}(0, {address})"
    if dtype == torch.bool:
        return f"as_uchar{lanes}(({raw} != (uchar{lanes})(0)) & (char{lanes})(1))"
    if dtype == torch.bfloat16:
        return f"as_float{lanes}(convert_uint{lanes}({raw}) << 16)"
    return f"ob_unpack_half{lanes}({raw})" if dtype == torch.float16 else raw


def store(
    dtype: torch.dtype, lanes: int, pointer: str, index: str, value: str, *, aligned: bool = False
) -> str:
    """Expression: stores a value of the value type at `pointer[index]`; see `load`."""
    end = "" if lanes == 1 else str(lanes)
    if lanes == 1 and dtype == torch.float16:
        return f"vstore_half_rte({value}, {index}, {pointer})"
    if dtype in _SMALL_FLOATS:
        value = f"ob_pack_{'half' if dtype == torch.float16 else 'bfloat'}{end}({value})"
    if lanes == 1:
        return f"{pointer}[{index}] = {value}"
    storage = "ushort" if dtype == torch.float16 else STORAGE_TYPES[dtype]
    address = f"{pointer} + {index}"
    if aligned:
        return f"*(__global {storage}{lanes} *)({address}) = {value}"
    if dtype == torch.float16:
        address = f"(__global ushort *)({address})"
    return f"vstore{lanes}({value}, 0, {address})"


def convert(source: torch.dtype, target: torch.dtype, lanes: int, value: str) -> str:
    """Expression: converts a value between value dtypes by PyTorch's rules for casts."""
    if source == target:
        return value
    if target == torch.bool:
        return mask_to_value(source, target, lanes, _nonzero(source, lanes, value))
    if target.is_complex:
        if source.is_complex:
            return f"convert_{value_type(target)}({value})"
        return f"(({value_type(target)})({convert(source, real_dtype(target), 1, value)}, 0))"
    if source.is_complex:
        return convert(real_dtype(source), target, 1, f"({value}).x")
    return convert_number(source, target, _suffix(lanes), value)


def convert_number(source: torch.dtype, target: torch.dtype, lanes: str, value: str) -> str:
    """Like `convert`, from reals or bool to numbers; `lanes` is the suffix of vector types."""
    small = is_integer(target) and target.itemsize < 4
    if source.is_floating_point and (small or target == torch.uint32):
        # As on CPU, out-of-range values wrap if the wider integer type holds them.
        wide = "int" if small and lanes and source == torch.float32 else "long"
        value = f"convert_{wide}{lanes}({value})"
    return f"convert_{_VALUE_TYPES[target]}{lanes}({value})"


def mask_to_value(compared: torch.dtype, target: torch.dtype, lanes: int, mask: str) -> str:
    """Expression: converts the mask of a comparison of `compared` values to a value."""
    if lanes == 1:
        flag = f"((uchar)(({mask}) != 0))"
        return flag if target == torch.bool else convert(torch.uint8, target, 1, flag)
    ones = f"(({mask}) & ({mask_type(compared, lanes)})(1))"
    return f"convert_{value_type(target, lanes)}({ones})"


def value_to_mask(source: torch.dtype, compared: torch.dtype, lanes: int, value: str) -> str:
    """Expression: converts a value to a mask as from comparisons of `compared` values."""
    mask = _nonzero(source, lanes, value)
    if lanes == 1 or mask_type(source, lanes) == mask_type(compared, lanes):
        return mask
    return f"convert_{mask_type(compared, lanes)}({mask})"


def _nonzero(dtype: torch.dtype, lanes: int, value: str) -> str:
    if dtype.is_complex:
        return f"(({value}).x != 0 || ({value}).y != 0)"
    return f"(({value}) != (({value_type(dtype, lanes)})(0)))"


def _suffix(lanes: int) -> str:
    return "" if lanes == 1 else str(lanes)


# ---- Functions that the sources above call

_PACKED = ("half", "bfloat")
_CALL = re.compile(rf"\bob_(pack|unpack|round)_({'|'.join(_PACKED)})(16|8|4|2)?\(")
# `#` is the number of lanes. PoCL loads vectors of halves as if they were aligned, which fails on
# CPUs whose loads do not convert at once. So the functions load integers and unpack them.
_FUNCTIONS = {
    ("pack", "half"): """\
static inline ushort# ob_pack_half#(const float# value) {
  ushort# bits;
  vstore_half#_rte(value, 0, (half *)&bits);
  return bits;
}
""",
    ("unpack", "half"): """\
static inline float# ob_unpack_half#(const ushort# bits) {
  return vload_half#(0, (const half *)&bits);
}
""",
    ("pack", "bfloat"): """\
static inline ushort# ob_pack_bfloat#(const float# value) {
  const uint# bits = as_uint#(value);
  const uint# rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return convert_ushort#(value != value ? (uint#)(0x7fc0u) : rounded);
}
""",
    ("unpack", "bfloat"): """\
static inline float# ob_unpack_bfloat#(const ushort# bits) {
  return as_float#(convert_uint#(bits) << 16);
}
""",
}


def with_functions(source: str) -> str:
    """Prepends the functions that a source calls. Unused functions would cost compile time."""
    calls = {(m[1], m[2], m[3] or "") for m in _CALL.finditer(source)}
    rounded = {(name, lanes) for what, name, lanes in calls if what == "round"}
    calls |= {(what, *call) for call in rounded for what in ("pack", "unpack")}
    functions = "".join(
        _FUNCTIONS[what, name].replace("#", lanes)
        for what, name, lanes in sorted(calls)
        if what != "round"
    )
    for name, lanes in sorted(rounded):
        functions += (
            f"static inline float{lanes} ob_round_{name}{lanes}(const float{lanes} value) {{\n"
            f"  return ob_unpack_{name}{lanes}(ob_pack_{name}{lanes}(value));\n}}\n"
        )
    return functions + source
