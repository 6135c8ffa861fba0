"""Helpers of generated kernels that read and write memory, by stored type and number of lanes.

    load(p, i)            elements from i on, one per lane
    stride2_load(p, i)    every second element from i on
    repeat2_load, repeat4_load, repeat8_load(p, i)
                          elements from i on, each in 2, 4 or 8 neighbouring lanes
    gather(p, i)          elements at a vector of indices
    masked_<any load or gather>(p, i, m)
                          elements where the mask m is true, 0 elsewhere without an access
    store(p, i, v), scatter(p, i, v)
    atomic_add(p, i, v)   adds at indices that may be equal, also between work-items
    accumulate(p, i, v)   adds without atomics, for memory that one work-item owns

Helpers are macros, so that indices may be int or long; scalar atomic_add and accumulate are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch_outboard.inductor.opencl.value_types import FORMATS, STORED_NAMES
from torch_outboard.ops.sources import value_types

_ELEMENT = "0123456789abcdef"
# The dtypes that eager kernels load and store, too.
_DTYPES = {
    name: dtype for dtype, name in STORED_NAMES.items() if dtype in value_types.STORAGE_TYPES
}
# By stored name: element type in memory, value type.
STORED = {
    **{
        name: (value_types.STORAGE_TYPES[dtype], value_types.value_type(dtype))
        for name, dtype in _DTYPES.items()
    },
    "bool": ("uchar", "int"),
    **dict.fromkeys(FORMATS, ("uchar", "float")),
}

# Numbers of lanes that may share one element, in vectors with more lanes.
REPEATED = (2, 4, 8)
_WORD = {4: "uint", 8: "ulong"}


def element(vector: str, lane: int) -> str:
    """Source of one lane of a vector."""
    return f"({vector}).s{_ELEMENT[lane]}"


def memory_source(operation: str, name: str, lanes: int) -> str:
    """The definition of ob_<operation>_<name><lanes>."""
    return _OPERATIONS[operation](name, lanes)


def _wide(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"{kind}{lanes}"


def _one(name: str, slot: str) -> str:
    """Source of an element as a value."""
    if name == "bool":
        return f"((p)[{slot}] != 0)"
    if name in FORMATS:
        return f"ob_unpack_{name}((p)[{slot}])"
    return value_types.load(_DTYPES[name], 1, "(p)", slot)


def _vector(name: str, lanes: int, parts: list[str]) -> str:
    if name == "bool":
        parts = [f"-({part})" for part in parts]
    return f"(({_wide(STORED[name][1], lanes)})({', '.join(parts)}))"


def _define(operation: str, name: str, lanes: int, parameters: str, body: str) -> str:
    end = "" if lanes == 1 else str(lanes)
    return f"#define ob_{operation}_{name}{end}({parameters}) {body}\n"


def _whole(name: str, lanes: int, slot: str = "(i)") -> str:
    """Source of a vector of consecutive elements."""
    raw = f"vload{lanes}(0, (p) + {slot})"
    if name == "bool":
        return f"(convert_int{lanes}({raw}) != (int{lanes})(0))"
    if name in FORMATS:
        return f"ob_unpack_{name}{lanes}({raw})"
    return value_types.load(_DTYPES[name], lanes, "(p)", slot)


def _second(name: str, lanes: int) -> str:
    """Source of a vector of every second element, without reads beyond its last one."""
    low, high = _whole(name, lanes), _whole(name, lanes, f"(i) + {lanes - 1}")
    return f"(({_wide(STORED[name][1], lanes)})(({low}).even, ({high}).odd))"


def _repeated(name: str, lanes: int, times: int) -> str:
    slots = "".join(_ELEMENT[lane // times] for lane in range(lanes))
    return f"({_whole(name, lanes // times)}).s{slots}"


def _gathered(name: str, lanes: int) -> str:
    return _vector(name, lanes, [_one(name, element("i", lane)) for lane in range(lanes)])


# Loads: the source of a vector, and the index of each lane.
_LOADS: dict[str, tuple[Callable[[str, int], str], Callable[[int], str]]] = {
    "gather": (_gathered, partial(element, "i")),
    "load": (_whole, lambda lane: f"(i) + {lane}"),
    "stride2_load": (_second, lambda lane: f"(i) + {2 * lane}"),
    **{
        f"repeat{times}_load": (
            partial(_repeated, times=times),
            partial(lambda times, lane: f"(i) + {lane // times}", times),
        )
        for times in REPEATED
    },
}


def _load(operation: str, masked: str, name: str, lanes: int) -> str:
    """With a mask, loads a whole vector if it is true in all lanes; else element by element."""
    whole, slot = _LOADS[operation]
    if lanes == 1:
        body = f"((m) ? {_one(name, 'i')} : 0)" if masked else _one(name, "i")
    elif not masked:
        body = whole(name, lanes)
    else:
        parts = [f"({element('m', i)} ? {_one(name, slot(i))} : 0)" for i in range(lanes)]
        body = _vector(name, lanes, parts)
        if operation != "gather":
            none = f"({_wide(STORED[name][1], lanes)})(0)"
            body = f"(all(m) ? {whole(name, lanes)} : (any(m) ? {body} : {none}))"
    return _define(masked + operation, name, lanes, "p, i, m" if masked else "p, i", body)


def _store_one(name: str, slot: str, value: str) -> str:
    if name == "bool":
        return f"(p)[{slot}] = ({value}) != 0"
    if name in FORMATS:
        return f"(p)[{slot}] = ob_pack_{name}({value})"
    return value_types.store(_DTYPES[name], 1, "(p)", slot, f"({value})")


def _store(name: str, lanes: int) -> str:
    if lanes == 1:
        return _define("store", name, 1, "p, i, v", _store_one(name, "i", "v"))
    if name == "bool":
        body = f"vstore{lanes}(convert_uchar{lanes}((v) & (int{lanes})(1)), 0, (p) + (i))"
    elif name in FORMATS:
        body = f"vstore{lanes}(ob_pack_{name}{lanes}(v), 0, (p) + (i))"
    else:
        body = value_types.store(_DTYPES[name], lanes, "(p)", "(i)", "v")
    return _define("store", name, lanes, "p, i, v", body)


def _scatter(name: str, lanes: int) -> str:
    if lanes == 1:
        return _define("scatter", name, 1, "p, i, v", _store_one(name, "i", "v"))
    return _lane_by_lane("scatter", name, lanes, partial(_store_one, name))


def _lane_by_lane(
    operation: str, name: str, lanes: int, write: Callable[[str, str], str] | None = None
) -> str:
    """An operation on vectors that writes each lane, by default with the scalar operation."""
    write = write or f"ob_{operation}_{name}(p, {{}}, {{}})".format
    parts = [f"{write(element('i', lane), element('v', lane))};" for lane in range(lanes)]
    body = f"do {{ {' '.join(parts)} }} while (0)"
    return _define(operation, name, lanes, "p, i, v", body)


def _atomic_add(name: str, lanes: int) -> str:
    if lanes > 1:
        return _lane_by_lane("atomic_add", name, lanes)
    stored, value = STORED[name]
    head = f"static void ob_atomic_add_{name}(__global {stored} *p, long i, {value} v) {{\n"
    if name in ("int", "uint"):
        return head + "  atomic_add(p + i, v);\n}\n"
    if name in ("long", "ulong", "double", "float"):
        size = 4 if name == "float" else 8
        exchange = "atomic_cmpxchg" if size == 4 else "atom_cmpxchg"
        word = _WORD[size]
        return (
            head
            + f"  volatile __global {word} *at = (volatile __global {word} *)(p + i);\n"
            + f"  {word} seen = *at, found;\n"
            + f"  while ((found = {exchange}(at, seen, as_{word}(as_{name}(seen) + v))) != seen)"
            + " seen = found;\n}\n"
        )
    # An element is part of a 32-bit word, which is exchanged as a whole.
    bits = 16 if stored in ("half", "short", "ushort") else 8
    mask = (1 << bits) - 1
    unsigned = "ushort" if bits == 16 else "uchar"
    if name == "half":
        added = "0; vstore_half_rte(vload_half(0, (half *)&old) + v, 0, (half *)&fresh);"
    elif name == "bfloat" or name in FORMATS:
        added = f"ob_pack_{name}(ob_unpack_{name}(old) + v);"
    else:
        added = f"({unsigned})(old + v);"
    return (
        head
        + f"  const ulong slot = (ulong)(p + i), shift = (slot & {4 - bits // 8}) * 8;\n"
        + "  volatile __global uint *at = (volatile __global uint *)(slot & ~3UL);\n"
        + "  uint seen = *at, found;\n  for (;;) {\n"
        + f"    {unsigned} old = ({unsigned})(seen >> shift);\n"
        + f"    {unsigned} fresh = {added}\n"
        + f"    const uint both = (seen & ~({mask}u << shift)) | ((uint)fresh << shift);\n"
        + "    if ((found = atomic_cmpxchg(at, seen, both)) == seen) break;\n"
        + "    seen = found;\n  }\n}\n"
    )


def _accumulate(name: str, lanes: int) -> str:
    if lanes > 1:
        return _lane_by_lane("accumulate", name, lanes)
    stored, value = STORED[name]
    added = _store_one(name, "i", f"{_one(name, 'i')} + v")
    return (
        f"static void ob_accumulate_{name}(__global {stored} *p, long i, {value} v) {{"
        f" {added}; }}\n"
    )


_OPERATIONS: dict[str, Callable[[str, int], str]] = {
    "store": _store,
    "scatter": _scatter,
    "atomic_add": _atomic_add,
    "accumulate": _accumulate,
    **{f"{m}{name}": partial(_load, name, m) for m in ("", "masked_") for name in _LOADS},
}
OPERATIONS = tuple(_OPERATIONS)
