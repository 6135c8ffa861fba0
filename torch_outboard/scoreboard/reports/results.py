"""Results of a run as JSON, and what changed since another run."""

from __future__ import annotations

import json
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard.answers import BAD, EXCLUDED, PASS, UNCOUNTED, Answer
from torch_outboard.scoreboard.suites import SUITES

FORMAT = 1
RESULTS, PREVIOUS = "results.json", "previous.json"
# Of an entry and check, that are written; the others are counted.
REASONS = 3

# Suites and checks.
ORDER = [(name, check) for name, suite in SUITES.items() for check in suite.checks]
# Suite, dtype, entry and check.
Key = tuple[str, str, str, str]


def about(device: str, driver: str, placement: str, access: str) -> dict[str, str]:
    """What results are about, for readers."""
    from importlib import metadata

    return {
        "device": device,
        "driver": driver,
        "placement": placement,
        "memory": access,
        "torch": metadata.version("torch"),
        "torch_outboard": metadata.version("torch-outboard"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def of_answers(
    answers: Iterable[Answer], description: Mapping[str, str], sources: str, started: str
) -> dict[str, Any]:
    """All that is written about a run."""
    return {
        "format": FORMAT,
        "about": {**description, "sources": sources, "started": started},
        "answers": [_row(answer) for answer in answers],
    }


def _row(answer: Answer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "suite": answer.suite,
        "entry": answer.entry,
        "dtype": answer.dtype,
        "status": answer.status,
        "samples": answer.samples,
        "seconds": answer.seconds,
        "cells": answer.cells(),
    }
    reasons = {
        check: _shortened(answer.reasons(check))
        for check, status in row["cells"].items()
        if status != PASS
    }
    if reasons:
        row["reasons"] = reasons
    if answer.excluded:
        row["owners"] = {e["check"]: e["owner"] for e in answer.excluded}
    if answer.notes:
        row["notes"] = _shortened([" ".join(note.split()) for note in answer.notes])
    return row


def _shortened(reasons: Sequence[str]) -> list[str]:
    more = len(reasons) - REASONS
    return [*reasons[:REASONS], *([f"and {more} more"] if more > 0 else [])]


def read(path: Path) -> dict[str, Any]:
    """Results that were written.

    Raises:
        ValueError: if the file is none of such.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as results: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} holds no results of this version; run the scoreboard again")
    return found


def write(folder: Path, results: dict[str, Any]) -> dict[str, Any] | None:
    """Writes the results; those of the run before stay beside them, and are returned."""
    folder.mkdir(parents=True, exist_ok=True)
    path, previous = folder / RESULTS, folder / PREVIOUS
    if path.exists():
        try:
            other = read(path)["about"]["started"] != results["about"]["started"]
        except ValueError:
            path.unlink()
        else:
            if other:
                path.replace(previous)
    path.write_text(json.dumps(results, indent=1))
    try:
        return read(previous)
    except ValueError:
        return None


def cells(results: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """The outcome of each check of each entry."""
    for row in results["answers"]:
        for check, status in row["cells"].items():
            yield (row["suite"], row["dtype"], row["entry"], check), status


@dataclass(frozen=True)
class Score:
    """Checks of entries that CPU can do, by outcome."""

    suite: str
    check: str
    counts: Counter[str]

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def share(self) -> float:
        """Of those that count: what is PyTorch's own fault counts for nobody."""
        return self.counts[PASS] / self.total if self.total else 0.0


def scores(results: Mapping[str, Any]) -> list[Score]:
    """Of each check."""
    counted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (suite, _, _, check), status in cells(results):
        if status not in UNCOUNTED:
            counted[suite, check][status] += 1
    order = {check: number for number, check in enumerate(ORDER)}
    keys = sorted(counted, key=lambda key: (order.get(key, len(order)), key))
    return [Score(suite, check, counted[suite, check]) for suite, check in keys]


@dataclass
class Changes:
    """Checks of entries whose outcome is another than in the run before."""

    worse: list[tuple[Key, str, str]] = field(default_factory=list)
    better: list[tuple[Key, str, str]] = field(default_factory=list)
    new: list[Key] = field(default_factory=list)
    gone: list[Key] = field(default_factory=list)


def _rank(status: str) -> int:
    return 2 if status in BAD else 1 if status == EXCLUDED else 0


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Changes:
    """From one run to another; suites and dtypes that did not run now are left out."""
    old, new = dict(cells(before)), dict(cells(now))
    ran = {key[:2] for key in new}
    found = Changes(
        new=[key for key in new if key not in old],
        gone=[key for key in old if key not in new and key[:2] in ran],
    )
    for key, status in new.items():
        was = old.get(key, status)
        if _rank(status) > _rank(was):
            found.worse.append((key, was, status))
        elif _rank(status) < _rank(was):
            found.better.append((key, was, status))
    return found
