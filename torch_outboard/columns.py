"""Tables of plain text, which stay whole in files and pipes."""

from __future__ import annotations

from collections.abc import Container, Sequence


def columns(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> str:
    """Rows as lines, each column as wide as its widest cell; those in `right` end there."""
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
    """Prints them."""
    print(columns(rows, right))
