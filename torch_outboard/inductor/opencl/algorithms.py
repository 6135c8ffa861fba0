"""Helpers of generated kernels: folds, scans, searches, sorts and random numbers.

Folds combine the lanes of a vector at the end of a loop over a reduction:

    fold_sum, fold_prod, fold_xor_sum, fold_max, fold_min(v)

Scans move the lanes of a vector:

    shift<n>(v)   each lane gets the value n lanes before it; the first n get any value
    last(v)       the value of the last lane

Searches find values in sorted lines, for bucketize and searchsorted. All lanes search in lockstep.
Each takes the steps of CPU's search, so that lines with NaN, and unsorted lines, give CPU's
results.

    search(p, start, stride, n, v, right)
        the first position for each value `v` in a line of `n` elements, `stride` apart from
        p + start on, or the last one if `right`
    sorted_search(..., by, by_start, by_stride, fault)
        the same, where `by` has the sorted order of the line as positions; one out of range is
        reported and replaced by 0

Each lane sorts one line. Positions in the keys make every sort stable. Vectors of lines, and lines
of a work-group, use Batcher's merge exchange (Knuth, The Art of Computer Programming, volume 3,
algorithm 5.2.2M), whose steps do not depend on the values. A single line uses merges.

    sort_key(v, location, descending)
                                     a 64-bit key for one comparison; for values of up to 32 bits
                                     the lower half is sort_location
    sort_location(v, location)       twice the position, plus 1 if v is -0.0
    sorted_value(key, low, descending)   the value of a key
    sorted_location(low)             the position of a sort_location
    sort_keys(keys, room, n)         sorts n keys; `room` is scratch memory
    sort_pairs(keys, locations, room, locations_room, n)
                                     the same for values of 64 bits, equal ones by sort_location
    group_sort_keys(keys, n), group_sort_pairs(keys, locations, n)
                                     in local memory, by all work-items of a work-group

Random numbers are Philox4x32-10, words as kernels/random_numbers/philox.cl draws them: number i is
word i % 4 of block i / 4 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import re

from torch_outboard.inductor.opencl.memory_sources import STORED, element

FOLDS = ("fold_sum", "fold_prod", "fold_xor_sum", "fold_max", "fold_min")


def fold_source(name: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<kind><lanes>(v), of type `kind`."""
    folded = _fold(name, kind, [element("v", lane) for lane in range(lanes)])
    return (
        f"static inline {kind} ob_{name}_{kind}{lanes}(const {kind}{lanes} v) {{"
        f" return {folded}; }}\n"
    )


def _fold(name: str, kind: str, parts: list[str]) -> str:
    """Folds in pairs, so that sums of many numbers lose few digits."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(name, kind, a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def combine(name: str, kind: str, a: str, b: str) -> str:
    """Source that combines two values."""
    operator = {"fold_sum": "+", "fold_prod": "*", "fold_xor_sum": "^"}.get(name)
    if operator is not None:
        return f"({a} {operator} {b})"
    function = {"fold_max": "maximum", "fold_min": "minimum"}[name]
    return f"ob_{function}_{kind}({a}, {b})"


_SHIFTS = (1, 2, 4, 8)
SCANS = (*(f"shift{step}" for step in _SHIFTS), "last")


def scan_source(name: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<kind><lanes>(v)."""
    end = "" if lanes == 1 else str(lanes)
    if lanes == 1:
        body = "(v)"
    elif name == "last":
        body = element("v", lanes - 1)
    else:
        step = int(name.removeprefix("shift"))
        parts = [element("v", max(lane - step, 0)) for lane in range(lanes)]
        body = f"(({kind}{lanes})({', '.join(parts)}))"
    return f"#define ob_{name}_{kind}{end}(v) {body}\n"


SEARCH = re.compile(rf"\bob_(search|sorted_search)_({'|'.join(STORED)})_(int|long)(16|8|4|2)?\b")


def search_source(name: str, stored: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<stored>_<kind><lanes>, whose positions have type `kind`."""
    end = "" if lanes == 1 else str(lanes)
    t, (pointed, value) = f"{kind}{end}", STORED[stored]
    more, location = "", "middle"
    if name == "sorted_search":
        more = (
            f", const __global long *by, const {t} by_start, const long by_stride,"
            " __global int *fault"
        )
        read = f"ob_gather_long{end}(by, by_start + middle * ({t})(({kind})by_stride))"
        location = f"convert_{t}(ob_checked_long{end}({read}, n, open, fault))"
        if lanes > 1:
            location = location.replace("open,", f"convert_int{lanes}(open),")
    after = "there > v" if lanes == 1 else f"convert_{t}(there > v)"
    equal = after.replace(">", ">=")
    return (
        f"static inline {t} ob_{name}_{stored}_{t}(const __global {pointed} *p, const {t} start,"
        f" const long stride, const long n, const {value}{end} v, const int right{more}) {{\n"
        f"  {t} low = 0, high = ({t})(({kind})n);\n"
        "  for (;;) {\n"
        f"    const {t} open = low < high;\n"
        f"    if (!{'open' if lanes == 1 else 'any(open)'}) return low;\n"
        f"    const {t} middle = min(low + ((high - low) >> 1), ({t})(({kind})n - 1));\n"
        f"    const {t} location = {location};\n"
        f"    const {value}{end} there = ob_gather_{stored}{end}(p, start + location *"
        f" ({t})(({kind})stride));\n"
        f"    const {t} after = right ? {after} : {equal};\n"
        "    low = open != 0 && after == 0 ? middle + 1 : low;\n"
        "    high = open != 0 && after != 0 ? middle : high;\n"
        "  }\n}\n"
    )


KINDS = (
    "float", "double", "int", "uint", "long", "ulong", "short", "ushort", "char", "uchar",
)  # fmt: skip
_WIDE = ("long", "ulong", "double")
_NETWORKS = ("sort_keys", "sort_pairs", "group_sort_keys", "group_sort_pairs")
_NAMES = ("sort_key", "sort_location", "sorted_value", "sorted_location", *_NETWORKS)
SORT = re.compile(rf"\bob_({'|'.join(_NAMES)})_(bool|{'|'.join(KINDS)})(16|8|4|2)?\b")


def is_wide(kind: str) -> bool:
    """Whether keys need all of their 64 bits."""
    return kind in _WIDE


def sort_source(name: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<kind><lanes>."""
    end = "" if lanes == 1 else str(lanes)
    if name in _NETWORKS:
        alone = lanes == 1 and not name.startswith("group")
        return _merges(name) if alone else _network(name, end)
    value = f"{'int' if kind == 'bool' else kind}{end}"
    t, function = f"long{end}", f"ob_{name}_{kind}{end}"
    if name == "sort_location":
        return (
            f"static inline {t} {function}(const {value} v, const {t} location) {{\n"
            f"  return location << 1 | {_is_negative_zero(kind, end)};\n}}\n"
        )
    if name == "sorted_location":
        return f"#define {function}(low) (((low) & 0xffffffffL) >> 1)\n"
    if name == "sorted_value":
        return (
            f"static inline {value} {function}(const {t} key, const {t} low,"
            f" const int descending) {{\n{_value(kind, end)}}}\n"
        )
    return (
        f"static inline {t} {function}(const {value} v, const {t} location, const int descending)"
        f" {{\n{_key(kind, end)}}}\n"
    )


def _is_negative_zero(kind: str, end: str) -> str:
    """1 if a value is -0.0, which must keep its sign though it equals 0.0; else 0."""
    if kind == "float":
        return f"(convert_long{end}(as_int{end}(v) == (int{end})(INT_MIN)) & 1L)"
    if kind == "double":
        return f"(convert_long{end}(as_long{end}(v) == (long{end})(LONG_MIN)) & 1L)"
    return "0L"


def _bits(kind: str, end: str) -> tuple[str, str, str, int]:
    """Floats as integers: the integer type, its least and greatest value, and the sign's bit."""
    integer = "int" if kind == "float" else "long"
    t = f"{integer}{end}"
    limits = (f"({t})({integer.upper()}_{limit})" for limit in ("MIN", "MAX"))
    return (t, *limits, 31 if kind == "float" else 63)


def _key(kind: str, end: str) -> str:
    t = f"long{end}"
    if kind in ("float", "double"):
        s, least, most, bits = _bits(kind, end)
        # Bits of negative numbers have reverse order; NaN comes last.
        lines = (
            f"  const {s} bits = as_{s}(v);\n"
            f"  {s} order = bits ^ ((bits >> {bits}) & {most});\n"
            f"  order = bits == {least} ? ({s})(0) : order;\n"
            f"  order = v != v ? {most} : order;\n"
            "  if (descending) order = ~order;\n"
        )
    else:
        shifted = {
            "bool": f"convert_{t}(v & 1)",
            "uint": f"convert_{t}(v) - 2147483648L",
            "ulong": f"as_{t}(v ^ (ulong{end})(1UL << 63))",
        }.get(kind, f"convert_{t}(v)")
        lines = f"  {t} order = {shifted};\n  if (descending) order = ~order;\n"
    if is_wide(kind):
        return f"{lines}  return order;\n"
    high = f"as_{t}(as_ulong{end}(convert_{t}(order)) << 32)"
    return f"{lines}  return {high} | location << 1 | {_is_negative_zero(kind, end)};\n"


def _value(kind: str, end: str) -> str:
    t = f"long{end}"
    order = "key" if is_wide(kind) else "(key >> 32)"
    lines = f"  {t} order = {order};\n  if (descending) order = ~order;\n"
    if kind in ("float", "double"):
        s, least, most, bits = _bits(kind, end)
        return (
            f"{lines}  const {s} whole = convert_{s}(order);\n"
            f"  const {s} bits = whole ^ ((whole >> {bits}) & {most});\n"
            f"  const {s} negative = convert_{s}(low & 1L) != ({s})(0);\n"
            f"  return as_{kind}{end}(negative ? {least} : bits);\n"
        )
    value = {
        "bool": f"convert_int{end}(order) != (int{end})(0)",
        "uint": f"convert_uint{end}(order + 2147483648L)",
        "ulong": f"as_ulong{end}(order) ^ (ulong{end})(1UL << 63)",
    }.get(kind, f"convert_{kind}{end}(order)")
    return f"{lines}  return {value};\n"


def _network(name: str, end: str) -> str:
    """Batcher's merge exchange, for vectors of lines or the work-items of a work-group."""
    t, grouped, pairs = f"long{end}", name.startswith("group"), name.endswith("pairs")
    space = "__local " if grouped else ""
    exchange = f"const {t} a = keys[i], b = keys[i + distance];\n"
    if pairs:
        exchange += (
            f"      const {t} at = locations[i], other = locations[i + distance];\n"
            f"      const {t} wrong = (b < a) | ((b == a) & (other < at));\n"
            "      keys[i] = wrong ? b : a;\n"
            "      keys[i + distance] = wrong ? a : b;\n"
            "      locations[i] = wrong ? other : at;\n"
            "      locations[i + distance] = wrong ? at : other;\n"
        )
    else:
        exchange += "      keys[i] = min(a, b);\n      keys[i + distance] = max(a, b);\n"
    if grouped:
        loop = (
            "    for (int i = get_local_id(0); i < n - distance; i += get_local_size(0)) {\n"
            "      if ((i & step) != rest) continue;\n"
            f"      {exchange}    }}\n    barrier(CLK_LOCAL_MEM_FENCE);\n"
        )
    else:
        loop = (
            "    for (int start = rest; start < n - distance; start += 2 * step) {\n"
            "    const int last = min(start + step, n - distance);\n"
            "    for (int i = start; i < last; ++i) {\n"
            f"      {exchange}    }}\n    }}\n"
        )
    # The distances of a step are `step`, then `from` - `step` for `from` = 2 * top / 2, / 4, ...
    return (
        f"static inline void ob_{name}_{t}({_lines(space + t, name)}, const int n) {{\n"
        "  int top = 1;\n  while (2 * top < n) top *= 2;\n"
        "  for (int step = top; step > 0; step /= 2)\n"
        "  for (int from = 2 * top; from > step; from /= 2) {\n"
        "    const int rest = from == 2 * top ? 0 : step;\n"
        "    const int distance = from == 2 * top ? step : from - step;\n"
        f"{loop}  }}\n}}\n"
    )


def _lines(kind: str, name: str) -> str:
    """Parameters for lines, and for scratch memory of the same size, which merges need."""
    names = ["keys", "locations"] if name.endswith("pairs") else ["keys"]
    if not name.startswith("group"):
        names += [f"{each}_room" for each in names]
    return ", ".join(f"{kind} *{each}" for each in names)


def _merges(name: str) -> str:
    """Sorts one line: runs of four by exchanges, then merges of runs from both ends at once."""
    pairs = name.endswith("pairs")

    def move(to: str, source: str) -> str:
        line = f"to[{to}] = from[{source}];"
        return f"{line} locations_to[{to}] = locations_from[{source}];" if pairs else line

    def exchange(a: int, b: int) -> str:
        swap = f"const long low = min(k{a}, k{b}); k{b} = max(k{a}, k{b}); k{a} = low;"
        if not pairs:
            return f"    {{ {swap} }}\n"
        return (
            f"    {{ const int wrong = k{b} < k{a} || (k{b} == k{a} && p{b} < p{a});"
            f" const long k = wrong ? k{b} : k{a}, p = wrong ? p{b} : p{a};"
            f" k{b} = wrong ? k{a} : k{b}; p{b} = wrong ? p{a} : p{b}; k{a} = k; p{a} = p; }}\n"
        )

    def four(letter: str, of: str) -> tuple[str, str]:
        read = ", ".join(f"{letter}{i} = {of}[start + {i}]" for i in range(4))
        write = " ".join(f"{of}[start + {i}] = {letter}{i};" for i in range(4))
        return f"    long {read};\n", f"    {write}\n"

    reads, writes = zip(*(four(*of) for of in (("k", "keys"), ("p", "locations"))), strict=True)
    count = 2 if pairs else 1
    network = "".join(exchange(*of) for of in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)))
    sources = "long *from = keys, *to = keys_room;"
    swap = "long *const other = from; from = to; to = other;"
    back = "for (int i = 0; i < n; ++i) keys[i] = from[i];"
    if pairs:
        sources += " long *locations_from = locations, *locations_to = locations_room;"
        swap += (
            " long *const others = locations_from; locations_from = locations_to;"
            " locations_to = others;"
        )
        back = (
            "for (int i = 0; i < n; ++i) { keys[i] = from[i]; locations[i] = locations_from[i]; }"
        )
    insert = "for (; i > start && keys[i - 1] > key; --i) keys[i] = keys[i - 1];"
    if pairs:
        insert = (
            "const long location = locations[next]; for (; i > start && keys[i - 1] > key; --i)"
            " { keys[i] = keys[i - 1]; locations[i] = locations[i - 1]; } locations[i] = location;"
        )
    return (
        f"static inline void ob_{name}_long({_lines('long', name)}, const int n) {{\n"
        "  int start = 0;\n"
        "  for (; n - start >= 4; start += 4) {\n"
        f"{''.join(reads[:count])}{network}{''.join(writes[:count])}  }}\n"
        "  for (int next = start + 1; next < n; ++next) {\n"
        f"    const long key = keys[next];\n    int i = next;\n    {insert}\n"
        "    keys[i] = key;\n  }\n"
        f"  {sources}\n"
        "  for (int width = 4; width < n; width *= 2) {\n"
        "    for (int begin = 0; begin < n; begin += 2 * width) {\n"
        "      const int middle = min(begin + width, n), end = min(middle + width, n);\n"
        # Take the least and the greatest of two runs, as often as neither run can be exhausted.
        "      int left = begin, right = middle, first = begin;\n"
        "      int left_last = middle - 1, right_last = end - 1, last = end - 1;\n"
        "      for (int count = end - middle; count > 0; --count) {\n"
        "        const int next = from[right] < from[left];\n"
        f"        {{ const int at = next ? right : left; {move('first', 'at')} }}\n"
        "        right += next; left += 1 - next; ++first;\n"
        "        const int before = from[right_last] < from[left_last];\n"
        f"        {{ const int at = before ? left_last : right_last; {move('last', 'at')} }}\n"
        "        left_last -= before; right_last -= 1 - before; --last;\n"
        "      }\n"
        "      while (first <= last) {\n"
        "        const int next = left > left_last ||"
        " (right <= right_last && from[right] < from[left]);\n"
        f"        {{ const int at = next ? right : left; {move('first', 'at')} }}\n"
        "        right += next; left += 1 - next; ++first;\n"
        "      }\n"
        "    }\n"
        f"    {swap}\n"
        "  }\n"
        f"  if (from != keys) {back}\n"
        "}\n"
    )


_LOW_FACTOR, _HIGH_FACTOR = "0xD2511F53u", "0xCD9E8D57u"
_NEXT_KEY = "low += 0x9E3779B9u; high += 0xBB67AE85u;"


def philox_source(lanes: int) -> str:
    """Functions for vectors of `lanes` words: at any indices, and at consecutive indices."""
    return _philox_word(lanes) + "\n" + _philox_row(lanes)


def _philox_word(lanes: int) -> str:
    """Each lane computes a block and takes one of its words."""
    w = "" if lanes == 1 else str(lanes)
    u, signed, wide = f"uint{w}", f"int{w}", f"ulong{w}"
    select = "((part & 2) != 0 ? ((part & 1) != 0 ? w : z) : ((part & 1) != 0 ? y : x))"
    return (
        f"static inline long{w} ob_philox_word_long{w}(const long{w} seed, const long{w} i,"
        f" const long{w} offset) {{\n"
        f"  const {wide} block = as_ulong{w}(i) >> 2, at = as_ulong{w}(offset);\n"
        f"  {u} x = convert_{u}(block), y = convert_{u}(block >> 32);\n"
        f"  {u} z = convert_{u}(at), w = convert_{u}(at >> 32);\n"
        f"  const {wide} key = as_ulong{w}(seed);\n"
        f"  {u} low = convert_{u}(key), high = convert_{u}(key >> 32);\n"
        "  for (int round = 0; round < 10; ++round) {\n"
        f"    const {u} a = mul_hi(({u})({_LOW_FACTOR}), x), b = {_LOW_FACTOR} * x;\n"
        f"    const {u} c = mul_hi(({u})({_HIGH_FACTOR}), z), d = {_HIGH_FACTOR} * z;\n"
        "    x = c ^ y ^ low; y = d; z = a ^ w ^ high; w = b;\n"
        f"    {_NEXT_KEY}\n  }}\n"
        f"  const {signed} part = convert_{signed}(i) & ({signed})(3);\n"
        f"  return convert_long{w}({select});\n}}"
    )


def _philox_row(lanes: int) -> str:
    """Computes each block once if indices are consecutive from a multiple of 4."""
    w = "" if lanes == 1 else str(lanes)
    head = (
        f"static inline long{w} ob_philox_row_long{w}(const long seed, const int{w} i,"
        " const long offset) {\n"
    )
    arguments = f"(long{w})(seed), convert_long{w}(i), (long{w})(offset)"
    each = f"return ob_philox_word_long{w}({arguments});\n}}"
    if lanes < 8:
        return head + "  " + each
    blocks = lanes // 4
    v = f"ulong{blocks}"
    numbers = ", ".join(str(block) for block in range(blocks))
    pairs = ", ".join(f"xy.s{block}, zw.s{block}" for block in range(blocks))
    # One instruction computes both halves of a product in a 64-bit lane. The upper 32 bits of x, y,
    # z and w are not used.
    return (
        f"__attribute__((always_inline)) {head}"
        f"  const int first = i.s0;\n"
        f"  if (!all(i - first == ob_iota_int{w}) || (first & 3) != 0) {{\n    {each}\n"
        f"  const {v} mask = 0xffffffff;\n"
        f"  {v} x = ({v})((uint)first >> 2) + ({v})({numbers}), y = 0;\n"
        f"  {v} z = (uint)offset, w = (uint)((ulong)offset >> 32);\n"
        "  uint low = (uint)seed, high = (uint)((ulong)seed >> 32);\n"
        "#pragma unroll\n  for (int round = 0; round < 10; ++round) {\n"
        f"    const {v} a = (x & mask) * (ulong){_LOW_FACTOR};\n"
        f"    const {v} c = (z & mask) * (ulong){_HIGH_FACTOR};\n"
        "    x = (c >> 32) ^ y ^ (ulong)low; y = c; z = (a >> 32) ^ w ^ (ulong)high; w = a;\n"
        f"    {_NEXT_KEY}\n  }}\n"
        f"  const {v} xy = (x & mask) | (y << 32), zw = (z & mask) | (w << 32);\n"
        f"  return convert_long{w}(as_uint{w}((ulong{lanes // 2})({pairs})));\n}}"
    )
