"""Helpers that put the lanes of a vector together at the end of a loop of a reduction."""

from __future__ import annotations

from torch_outboard.inductor.opencl.memory_texts import element

# Name, and the functions of the table that its text calls.
FOLDS: dict[str, tuple[str, ...]] = {
    "fold_sum": (),
    "fold_prod": (),
    "fold_xor_sum": (),
    "fold_max": ("maximum",),
    "fold_min": ("minimum",),
    "fold_any": (),
}


def fold_text(name: str, kind: str, lanes: int) -> str:
    """The definition of ob_<name>_<kind><lanes>(v), of type `kind`."""
    if name == "fold_any":
        return f"#define ob_fold_any_int{lanes}(v) any(v)\n"
    text = _fold(name, kind, [element("v", lane) for lane in range(lanes)])
    return (
        f"static inline {kind} ob_{name}_{kind}{lanes}(const {kind}{lanes} v) {{"
        f" return {text}; }}\n"
    )


def _fold(name: str, kind: str, parts: list[str]) -> str:
    """In pairs, so that sums of many numbers lose little."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(name, kind, a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def combine(name: str, kind: str, a: str, b: str) -> str:
    """Two values put together."""
    operator = {"fold_sum": "+", "fold_prod": "*", "fold_xor_sum": "^", "fold_any": "|"}.get(name)
    if operator is not None:
        return f"({a} {operator} {b})"
    function = {"fold_max": "maximum", "fold_min": "minimum"}[name]
    return f"ob_{function}_{kind}({a}, {b})"
