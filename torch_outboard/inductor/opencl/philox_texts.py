"""Philox4x32-10 of compiled kernels: words as kernels/random_numbers/philox.cl draws them.

Number i is word i % 4 of block i / 4. Algorithm: Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3" (2011).
"""

from __future__ import annotations

_LOW_FACTOR, _HIGH_FACTOR = "0xD2511F53u", "0xCD9E8D57u"
_NEXT_KEY = "low += 0x9E3779B9u; high += 0xBB67AE85u;"


def philox_text(lanes: int) -> str:
    """Functions for vectors of `lanes` values: of any places, and of places in a row."""
    return _of_any_places(lanes) + "\n" + _of_places_in_a_row(lanes)


def _of_any_places(lanes: int) -> str:
    """Each lane computes a block, and takes a word of it."""
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


def _of_places_in_a_row(lanes: int) -> str:
    """Blocks are computed once where places follow each other from a multiple of 4."""
    w = "" if lanes == 1 else str(lanes)
    head = (
        f"static inline long{w} ob_philox_row_long{w}(const long seed, const int{w} i,"
        " const long offset) {\n"
    )
    texts = f"(long{w})(seed), convert_long{w}(i), (long{w})(offset)"
    each = f"return ob_philox_word_long{w}({texts});\n}}"
    if lanes < 8:
        return head + "  " + each
    blocks = lanes // 4
    v = f"ulong{blocks}"
    numbers = ", ".join(str(block) for block in range(blocks))
    pairs = ", ".join(f"xy.s{block}, zw.s{block}" for block in range(blocks))
    # Both halves of a product in a lane of 64 bits come from one instruction; what is above 32 bits
    # in x, y, z and w is not used.
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
