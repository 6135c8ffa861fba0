"""A summary of a program: operators by placement, bytes moved, waits, compiled kernels.

Made from a report (`torch_outboard.fallback.report`): a few clock readings per operator.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from torch_outboard import _C
from torch_outboard.columns import columns, readable_bytes
from torch_outboard.dispatch.fallback import Report, Row

__all__ = ["ProgramSummary"]

_Table = list[tuple[str, ...]]

# Missing kernels that are named.
_MOST_MISSING = 10


@dataclass(frozen=True)
class ProgramSummary:
    """The report of a program and its run time.

    `str(summary)` has the tables for a terminal, `summary.page()` the same for a browser.
    """

    report: Report
    seconds: float

    def headline(self) -> str:
        """One line: run time, calls by placement, bytes moved, waits, compiled kernels."""
        calls: dict[str, int] = defaultdict(int)
        for row in self.report.rows:
            calls[row.placement] += row.calls
        shares = ", ".join(f"{calls[p]:,} {p}" for p in ("device", "host", "copied") if calls[p])
        moved = readable_bytes(sum(row.copied_bytes for row in self.report.rows))
        waits = sum(wait.count for wait in self.report.waits)
        waited = sum(wait.seconds for wait in self.report.waits)
        programs = sum(row.programs for row in self.report.rows)
        compiled = sum(row.compiling_seconds for row in self.report.rows)
        return (
            f"{self.seconds:.2f} s; operators: {shares or 'none'}; {moved} moved; the host waited "
            f"{waits:,} times, {waited:.2f} s; {programs} programs compiled in {compiled:.2f} s"
        )

    def tables(self) -> Iterator[tuple[str, _Table, Sequence[int]]]:
        """Title, rows with a heading, and right-aligned columns of each table with content."""
        yield "Operators, by time of the calling thread", self._operators(), (3, 4, 5, 6, 7, 8, 9)
        if self.report.waits:
            yield "Waits of the host for the device, by line", self._wait_table(), (2, 3)
        if missing := self._missing_kernels():
            title = "Kernels most worth writing: operators that have none for the device"
            yield title, missing, (2, 3, 4)

    def notes(self) -> Iterator[str]:
        """Sentences on what to change."""
        unused = [row for row in self.report.rows if row.placement != "device" and _has_kernel(row)]
        if unused:
            seconds = sum(row.seconds for row in unused)
            yield (
                f"{sum(row.calls for row in unused):,} calls ({seconds:.2f} s) ran by CPU kernels "
                "where a device kernel exists; OUTBOARD_PLACEMENT=device uses the device's, and "
                "`python -m torch_outboard explain OPERATOR` says why one was not used."
            )
        if self._missing_kernels():
            yield "A kernel is added by `torch_outboard.kernel(NAME)`: docs/kernels.md."

    def __str__(self) -> str:
        parts = [self.headline()]
        for title, rows, right in self.tables():
            parts.append(f"{title}\n{columns(rows, right=right)}")
        return "\n\n".join([*parts, *self.notes()])

    def page(self) -> str:
        """The tables as one HTML document without references to others."""
        body = [f"<h1>Trace</h1><p>{html.escape(self.headline())}</p>"]
        for title, (heading, *rows), right in self.tables():
            body.append(f"<h2>{html.escape(title)}</h2><table>{_line(heading, right, 'th')}")
            body += [_line(row, right, "td") for row in rows]
            body.append("</table>")
        body += [f"<p>{html.escape(note)}</p>" for note in self.notes()]
        return _PAGE.replace("BODY", "\n".join(body))

    def _operators(self) -> _Table:
        costs = ("calls", "ms", "moved", "waits", "ms", "programs", "ms")
        table: _Table = [("operator", "dtype", "placement", *costs)]
        for row in sorted(self.report.rows, key=lambda row: -row.seconds):
            moved = readable_bytes(row.copied_bytes) if row.copied_bytes else ""
            waits = _count(row.waits, row.waiting_seconds)
            programs = _count(row.programs, row.compiling_seconds)
            first = (row.op, _name(row.dtype), row.placement, f"{row.calls:,}")
            table.append((*first, _milliseconds(row.seconds), moved, *waits, *programs))
        return table

    def _wait_table(self) -> _Table:
        table: _Table = [("cause", "line", "waits", "ms")]
        for wait in sorted(self.report.waits, key=lambda wait: -wait.seconds):
            line = wait.call_site or "(a backward pass, or no Python code)"
            table.append((wait.cause, line, *_count(wait.count, wait.seconds)))
        return table

    def _missing_kernels(self) -> _Table:
        rows = [row for row in self.report.rows if row.placement != "device"]
        missing = sorted((r for r in rows if not _has_kernel(r)), key=lambda row: -row.seconds)
        if not missing:
            return []
        table: _Table = [("operator", "dtype", "calls", "ms", "moved")]
        for row in missing[:_MOST_MISSING]:
            cells = (f"{row.calls:,}", _milliseconds(row.seconds), readable_bytes(row.copied_bytes))
            table.append((row.op, _name(row.dtype), *cells))
        return table


def _has_kernel(row: Row) -> bool:
    """Whether a device kernel for the operator and its dtype is registered."""
    return any(
        kernel.placement == "device" and (kernel.dtypes is None or row.dtype in kernel.dtypes)
        for kernel in _C.router_kernels(row.op) or []
    )


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.") if dtype else "-"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _count(count: int, seconds: float) -> tuple[str, str]:
    return (f"{count:,}", _milliseconds(seconds)) if count else ("", "")


def _line(cells: Sequence[str], right: Sequence[int], tag: str) -> str:
    joined = "".join(
        f"<{tag}{' class=n' if i in right else ''}>{html.escape(cell)}</{tag}>"
        for i, cell in enumerate(cells)
    )
    return f"<tr>{joined}</tr>"


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>torch_outboard trace</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { padding: .15rem .8rem .15rem 0; text-align: left; white-space: nowrap }
tr + tr { border-top: 1px solid #8884 }
.n { text-align: right; font-variant-numeric: tabular-nums }
</style>
BODY
</html>
"""
