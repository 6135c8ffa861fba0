"""Outcomes of entries, and the journal that keeps them from one run to the next."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PASS, FAIL, CRASH, HANG, EXCLUDED = "pass", "fail", "crash", "hang", "excluded"
# CPU cannot run it either, or gives nothing to compare with.
NOT_ON_CPU = "not on CPU"
# PyTorch's own test does not run on the device.
SKIPPED = "skipped"
# Those that count for nobody.
UNCOUNTED = (NOT_ON_CPU, SKIPPED)
BAD = (FAIL, CRASH, HANG)
# Of several outcomes of one thing the first that occurs.
WORST_FIRST = (CRASH, HANG, FAIL, EXCLUDED, SKIPPED, PASS, NOT_ON_CPU)
# In place of a check, where the process ended before the first one.
START = "start"


def worst(statuses: Iterable[str]) -> str:
    found = set(statuses)
    return next((status for status in WORST_FIRST if status in found), NOT_ON_CPU)


@dataclass
class Answer:
    """The outcome of an entry's checks in one dtype.

    Args:
        status: the worst outcome of its checks.
        suite: the kind of checks, a name of `suites.SUITES`.
        dtype: in which it was checked; "" if in none or several.
        samples: calls that CPU could run, of `available` in the database.
        failures: rows of check, number of the sample, reason and status (`BAD`).
        excluded: rows of check, reason and owner of exclusions that hid failures.
        warned_otherwise: calls that warned more or less often than on CPU, if that was counted.
        ran: rows of operator, dtype and placement, where that was counted.
        notes: differences that are PyTorch's own, and no failures.
    """

    entry: str
    status: str
    suite: str = ""
    dtype: str = ""
    samples: int = 0
    available: int = 0
    checks: list[str] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    excluded: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    warned_otherwise: int = 0
    ran: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, row: dict[str, Any]) -> Answer:
        """From JSON."""
        return cls(**{**row, "ran": [tuple(entry) for entry in row["ran"]]})

    @property
    def key(self) -> tuple[str, str, str]:
        return self.suite, self.dtype, self.entry

    def cells(self) -> dict[str, str]:
        """The outcome of each check."""
        found = {check: [PASS] for check in self.checks}
        for row in self.excluded:
            found.setdefault(row["check"], []).append(EXCLUDED)
        for failure in self.failures:
            found.setdefault(failure["check"], []).append(failure.get("status", FAIL))
        return {check: worst(statuses) for check, statuses in sorted(found.items())}

    def reasons(self, check: str) -> list[str]:
        """Of what does not pass in a check; with an owner for what is excluded."""
        reasons = [f["reason"] for f in self.failures if f["check"] == check]
        return reasons + [
            f"{row['owner']}: {row['reason']}" for row in self.excluded if row["check"] == check
        ]

    def served(self, on_device: bool) -> set[tuple[str, str]]:
        """Operators with the dtypes on which device kernels, or host kernels, served calls."""
        return {(op, dtype) for op, dtype, placed in self.ran if (placed == "device") == on_device}


def failure(check: str, sample: int, reason: str, status: str = FAIL) -> dict[str, Any]:
    return {"check": check, "sample": sample, "reason": reason, "status": status}


def is_bad(answer: Answer) -> bool:
    return answer.status in BAD


class Journal:
    """Keeps answers as they come, so that a stopped run can go on.

    Attributes:
        answers: the latest of each entry.
        started: when the first of them was made.
        of_others: whether the file held answers about other sources.
        saved: whether answers are written.
    """

    def __init__(
        self,
        path: Path,
        sources: str,
        again: Callable[[Answer], bool] = is_bad,
        few: bool = False,
    ) -> None:
        """Takes up the answers about the same sources.

        Args:
            sources: what the answers are about.
            again: which answers are dropped, since their entries run once more.
            few: only a few entries run; they do not replace what is known of other sources.
        """
        self.sources = sources
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        header = json.loads(lines[0]) if lines else {}
        self.of_others = bool(lines) and header.get("sources") != sources
        known = [] if self.of_others else read_journal(path)
        self.answers = [answer for answer in known if not again(answer)]
        if self.answers:
            self.started = header.get("started", self.started)
        self.saved = not (few and self.of_others)
        if self.saved:
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"sources": sources, "started": self.started}, *map(asdict, self.answers)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def add(self, answer: Answer) -> None:
        self.answers.append(answer)
        if not self.saved:
            return
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(answer)) + "\n")


def known_about(path: Path, sources: str) -> list[Answer]:
    """The answers of a journal if it is about these sources."""
    with contextlib.suppress(OSError, ValueError), path.open() as file:
        if json.loads(file.readline()).get("sources") == sources:
            return read_journal(path)
    return []


def read_journal(path: Path) -> list[Answer]:
    """The latest answer of each entry."""
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    answers = map(_read_line, lines)  # the last one may have been cut
    return list({answer.key: answer for answer in answers if answer is not None}.values())


def _read_line(line: str) -> Answer | None:
    try:
        return Answer.read(json.loads(line))
    except ValueError:
        return None
