"""Helpers that look for the place of values in sorted lines, for bucketize and searchsorted.

    search(p, start, stride, n, v, right)
        the first place of each value `v` in a line of `n` elements, `stride` apart from p + start
        on, or the last one if `right`
    sorted_search(..., by, by_start, by_stride, fault)
        the same, where `by` says at which places of the line its elements lie in order; one that
        is wrong is reported, and not followed

All lanes take their steps together, and those of each are the steps of CPU's search, so that lines
with NaN, or that are not sorted, give what they give there.
"""

from __future__ import annotations

import re

from torch_outboard.inductor.opencl.memory_texts import STORED

SEARCH = re.compile(rf"\bob_(search|sorted_search)_({'|'.join(STORED)})_(int|long)(16|8|4|2)?\b")


def search_text(name: str, stored: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<stored>_<kind><lanes>, whose places are of type `kind`."""
    end = "" if lanes == 1 else str(lanes)
    t, (pointed, value) = f"{kind}{end}", STORED[stored]
    more, place = "", "middle"
    if name == "sorted_search":
        more = (
            f", const __global long *by, const {t} by_start, const long by_stride,"
            " __global int *fault"
        )
        read = f"ob_gather_long{end}(by, by_start + middle * ({t})(({kind})by_stride))"
        place = f"convert_{t}(ob_checked_long{end}({read}, n, open, fault))"
        if lanes > 1:
            place = place.replace("open,", f"convert_int{lanes}(open),")
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
        f"    const {t} place = {place};\n"
        f"    const {value}{end} there = ob_gather_{stored}{end}(p, start + place *"
        f" ({t})(({kind})stride));\n"
        f"    const {t} after = right ? {after} : {equal};\n"
        "    low = open != 0 && after == 0 ? middle + 1 : low;\n"
        "    high = open != 0 && after != 0 ? middle : high;\n"
        "  }\n}\n"
    )
