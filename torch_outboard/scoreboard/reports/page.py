"""Results as one page without anything from elsewhere: a matrix to look at and to filter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard.answers import CRASH, EXCLUDED, FAIL, HANG, NOT_ON_CPU, PASS, SKIPPED
from torch_outboard.scoreboard.reports.results import Key, cells
from torch_outboard.scoreboard.suites import SUITES

TEMPLATE = Path(__file__).with_name("page.html")
PLACE = "{/*data*/}"
LETTERS = {
    PASS: "p",
    EXCLUDED: "x",
    FAIL: "f",
    CRASH: "c",
    HANG: "h",
    NOT_ON_CPU: "n",
    SKIPPED: "s",
}
NOT_THERE = "."


def page(results: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """As HTML."""
    # Inside a script no text may end it.
    text = json.dumps(data(results, before), separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE.read_text().replace(PLACE, text)


def data(results: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the page shows: a letter for each entry and column, and reasons where it says more."""
    found = dict(cells(results))
    columns = {key: number for number, key in enumerate(_columns(found))}
    entries = {entry: number for number, entry in enumerate(sorted({key[2] for key in found}))}
    grid = [[NOT_THERE] * len(columns) for _ in entries]
    for (suite, dtype, entry, check), status in found.items():
        grid[entries[entry]][columns[suite, dtype, check]] = LETTERS[status]
    reasons: dict[str, list[str]] = {}
    for row in results["answers"]:
        for check, words in row.get("reasons", {}).items():
            column = columns[row["suite"], row["dtype"], check]
            reasons[f"{entries[row['entry']]},{column}"] = words
    changed = {}
    for key, status in cells(before) if before is not None else ():
        suite, dtype, entry, check = key
        if key in found and found[key] != status:
            changed[f"{entries[entry]},{columns[suite, dtype, check]}"] = LETTERS[status]
    return {
        "about": results["about"],
        "before": before["about"] if before is not None else None,
        "words": {name: suite.words for name, suite in SUITES.items()},
        "columns": list(columns),
        "entries": list(entries),
        "grid": ["".join(line) for line in grid],
        "reasons": reasons,
        "changed": changed,
    }


def _columns(found: Mapping[Key, str]) -> list[tuple[str, str, str]]:
    """Suite, dtype and check, in the order of the suites."""
    order = {name: number for number, name in enumerate(SUITES)}

    def place(column: tuple[str, str, str]) -> tuple[Any, ...]:
        suite, dtype, check = column
        if suite not in SUITES:
            return (len(order), suite, dtype, check)
        known = SUITES[suite]
        dtypes, checks = list(known.dtypes), list(known.checks)
        return (
            order[suite],
            dtypes.index(dtype) if dtype in dtypes else len(dtypes),
            checks.index(check) if check in checks else len(checks),
            check,
        )

    return sorted({(suite, dtype, check) for suite, dtype, _, check in found}, key=place)
