"""Into how many parts a reduction along memory is split where its results are too few.

Inductor's own numbers are for GPUs: a part may begin anywhere, and the last one is shorter, so that
all loads have conditions. On a processor a vector that lies across two lines of its cache takes two
reads, and what a part adds should be long, and yet short enough for single precision.
"""

from __future__ import annotations

# Elements: more of them are split, and of a part at most.
_LEAST, _MOST = 1 << 13, 1 << 17
# Parts for each processor, so that none waits long for another.
_PARTS = 4
# Bytes of a line of a cache, and elements in it of the most frequent size.
_LINE = 64 // 4
# Numbers that are tried beyond the first, so that one of them suits.
_TRIED = 64


def parts_of_reduction(elements: int, results: int, processors: int) -> int:
    """Parts of equal length, except the last, of `elements` that each of `results` is made of.

    Their length is a multiple of a cache line where a number of parts near the wanted one gives
    that, and divides `elements` where it can.
    """
    if results >= 2 * processors or elements <= _LEAST:
        return 1
    enough = min(-(-_PARTS * processors // max(1, results)), elements // _LEAST)
    wanted = max(enough, -(-elements // _MOST))

    def unsuitable(parts: int) -> tuple[bool, bool, int]:
        length = -(-elements // parts)
        return length % _LINE != 0, elements % parts != 0, parts

    longest = min(2 * wanted, wanted + _TRIED, elements // _LEAST)
    return min(range(wanted, max(wanted, longest) + 1), key=unsuitable)
