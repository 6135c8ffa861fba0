"""Helpers that move the lanes of a vector for a scan.

shift<n>(v)   each lane gets the value of the lane n before it, the first n some value
last(v)       the value of the last lane
"""

from __future__ import annotations

from torch_outboard.inductor.opencl.memory_texts import element

_SHIFTS = (1, 2, 4, 8)
SCANS = (*(f"shift{step}" for step in _SHIFTS), "last")


def scan_text(name: str, kind: str, lanes: int) -> str:
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
