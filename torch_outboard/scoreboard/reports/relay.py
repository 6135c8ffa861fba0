"""Results in the form that PyTorch's cross-repository CI relay takes from a workflow (RFC-0050)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard.answers import BAD, EXCLUDED, PASS
from torch_outboard.scoreboard.reports.results import cells
from torch_outboard.scoreboard.reports.tables import words

RESULTS, FAILURES = "relay-results.json", "relay-failures.json"
# What the relay cuts off.
FAILURES_TAKEN, MESSAGE_TAKEN = 1000, 1024


def counts(results: Mapping[str, Any]) -> dict[str, int]:
    """What it calls passed, failed and skipped; exclusions are skipped."""
    found = Counter(status for _, status in cells(results))
    return {
        "passed": found[PASS],
        "failed": sum(found[status] for status in BAD),
        "skipped": found[EXCLUDED],
    }


def failures(results: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = [
        {
            "name": words((row["suite"], row["dtype"], row["entry"], check)),
            "classname": row["suite"],
            "message": "; ".join(row["reasons"][check])[:MESSAGE_TAKEN],
        }
        for row in results["answers"]
        for check, status in row["cells"].items()
        if status in BAD
    ]
    return rows[:FAILURES_TAKEN]


def write(folder: Path, results: Mapping[str, Any]) -> None:
    """A line each, which a workflow passes on as an output."""
    (folder / RESULTS).write_text(json.dumps(counts(results)) + "\n")
    (folder / FAILURES).write_text(json.dumps(failures(results)) + "\n")
