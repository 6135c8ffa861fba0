"""Plain-text tables, which are not truncated in files and pipes, and sizes for people."""

from __future__ import annotations

from collections.abc import Container, Sequence


def columns(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> str:
    """Table rows as lines, columns as wide as their widest cell; `right` ones are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def print_columns(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> None:
    """Prints a table; see `columns`."""
    print(columns(rows, right))


def readable_bytes(count: float, unit: str = "B") -> str:
    """A size with the largest fitting unit: 512 B, 1.5 KiB; `unit` is the name of a byte."""
    for name in (unit, "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {name}" if name == unit else f"{count:.1f} {name}"
        count /= 1024
    return f"{count:.1f} GiB"
