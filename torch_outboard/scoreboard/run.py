"""Runs suites over their entries in isolated processes, several at once, and goes on where it was.

Answers go to a journal as they come. Those of other sources than the present ones (`sources.py`)
are never taken up.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard import sources
from torch_outboard.scoreboard.answers import PASS, UNCOUNTED, Answer, Journal, is_bad
from torch_outboard.scoreboard.exclusions import read_file
from torch_outboard.scoreboard.processes import ask_all
from torch_outboard.scoreboard.suites import SUITES
from torch_outboard.scoreboard.worker import TURN, Settings, WorkerProcess

JOURNAL = "journal.jsonl"
TEST = "test"  # the check of a test of PyTorch's own files
SECONDS_BETWEEN_LINES = 15.0


class UnknownName(ValueError):
    """A suite, dtype, entry or check that is not there."""


@dataclass(frozen=True)
class Task:
    suite: str
    dtype: str
    entry: str


@dataclass(frozen=True)
class Plan:
    """What is run.

    Args:
        suites: which.
        dtypes, entries: which; all if there are none.
        jobs: processes that check entries.
        timeout: seconds for the checks of one entry.
        folder: of the results.
        resume: what passed on the same sources stays.
    """

    settings: Settings
    folder: Path
    suites: tuple[str, ...]
    dtypes: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    jobs: int = 1
    timeout: float = 300.0
    resume: bool = False


@dataclass
class Outcome:
    """What a run found.

    Args:
        answers: all that are known about these sources.
        ran: those of this run.
        saved: whether they are in the folder.
    """

    answers: list[Answer]
    ran: list[Answer]
    sources: str
    started: str
    saved: bool = True

    @property
    def failed(self) -> bool:
        return any(map(is_bad, self.ran))


def score(answers: Sequence[Answer]) -> tuple[int, int]:
    """How many entries pass, and how many CPU can run."""
    runnable = [a for a in answers if a.status not in UNCOUNTED]
    return sum(a.status == PASS for a in runnable), len(runnable)


def pairs(plan: Plan) -> list[tuple[str, str]]:
    """Suites with the dtypes in which their entries are checked.

    Raises:
        UnknownName: if there is none of that name.
    """
    if unknown := set(plan.suites) - set(SUITES):
        raise UnknownName(
            f"no suite is named {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}"
        )
    chosen = plan.suites
    if plan.settings.turn:
        chosen = tuple(name for name in chosen if SUITES[name].turns)
        return [(name, TURN) for name in chosen]
    checks = {check for name in chosen for check in SUITES[name].checks}
    if unknown := set(plan.settings.checks) - checks:
        raise UnknownName(
            f"no check is named {', '.join(sorted(unknown))}; there are {', '.join(sorted(checks))}"
        )
    if plan.settings.checks:
        chosen = tuple(n for n in chosen if set(plan.settings.checks) & set(SUITES[n].checks))
    found = [
        (name, dtype)
        for name in chosen
        for dtype in SUITES[name].dtypes
        if not plan.dtypes or dtype in plan.dtypes
    ]
    known = {dtype for name in chosen for dtype in SUITES[name].dtypes}
    if unknown := set(plan.dtypes) - known:
        raise UnknownName(
            f"no suite has the dtype {', '.join(sorted(unknown))}; "
            f"there are {', '.join(sorted(known - {''}))}"
        )
    return found


def tasks(plan: Plan, lister: WorkerProcess) -> list[Task]:
    """All that is asked for.

    Raises:
        UnknownName: if there is none of that name.
        RuntimeError: if the entries cannot be had.
    """
    wanted = set(plan.entries)
    found = [
        Task(suite, dtype, entry)
        for suite, dtype in pairs(plan)
        for entry in lister.entries(suite, dtype)
        if not wanted or entry in wanted
    ]
    if unknown := wanted - {task.entry for task in found}:
        where = f" in {', '.join(plan.dtypes)}" if plan.dtypes else ""
        raise UnknownName(f"no suite has an entry {', '.join(sorted(unknown))}{where}")
    return found


def run(plan: Plan, show: Callable[[str], None]) -> Outcome:
    """Runs the plan; `show` gets lines about what it finds and how far it is.

    Raises:
        UnknownName: if a name of the plan is unknown.
        RuntimeError: if no worker starts.
    """
    settings = plan.settings
    first = WorkerProcess(settings, plan.timeout)
    try:
        wanted = tasks(plan, first)
        check_exclusions(settings, first)
    except BaseException:
        first.close()
        raise
    keys = {(task.suite, task.dtype, task.entry) for task in wanted}
    journal = Journal(
        plan.folder / JOURNAL,
        about(settings),
        lambda a: bool(settings.turn) or (a.key in keys and (is_bad(a) or not plan.resume)),
        few=bool(plan.entries or settings.checks),
    )
    done = {answer.key for answer in journal.answers}
    rest = [task for task in wanted if (task.suite, task.dtype, task.entry) not in done]
    progress = Progress(len(wanted), len(rest), show, verbose=bool(plan.entries))
    ran: list[Answer] = []
    for answer in answers(plan, rest, first):
        journal.add(answer)
        ran.append(answer)
        progress.add(answer)
    return Outcome(
        sorted(journal.answers, key=lambda a: a.key), ran, journal.sources, journal.started,
        journal.saved,
    )  # fmt: skip


def about(settings: Settings) -> str:
    """What answers depend on."""
    files = [Path(name) for name in (*settings.exclusions, *settings.libraries)]
    fingerprint = sources.fingerprint(settings.driver, filter(Path.is_file, files))
    words = [
        settings.device, sources.driver_in_use(settings.driver), settings.access,
        settings.placement, settings.turn, f"{settings.samples}" if settings.samples else "",
        *settings.checks, *settings.libraries, fingerprint,
    ]  # fmt: skip
    return " ".join(word for word in words if word)


def check_exclusions(settings: Settings, lister: WorkerProcess) -> None:
    """Raises UnknownName for one of a file whose check or entry is not there."""
    for path in settings.exclusions:
        for exclusion in read_file(Path(path)):
            suites = [name for name in SUITES if exclusion.check in SUITES[name].checks]
            if not suites:
                if exclusion.check == TEST:
                    continue
                raise UnknownName(f"{path} excludes a check '{exclusion.check}' that is not there")
            if not any(exclusion.entry in lister.entries(name) for name in suites):
                raise UnknownName(
                    f"{path} excludes '{exclusion.entry}', and {' and '.join(suites)} "
                    f"{'has' if len(suites) == 1 else 'have'} no such entry"
                )


def answers(plan: Plan, rest: Sequence[Task], first: WorkerProcess) -> Iterator[Answer]:
    """Of the tasks; those of one environment share their workers. `first` is closed at the end."""
    groups: dict[tuple[tuple[str, str], ...], list[Task]] = defaultdict(list)
    for task in rest:
        groups[tuple(SUITES[task.suite].environment.items())].append(task)
    for environment, group in groups.items():
        more = {**plan.settings.environment, **dict(environment)}
        settings = replace(plan.settings, environment=more)
        count = min(plan.jobs, len(group))
        workers = [WorkerProcess(settings, plan.timeout) for _ in range(count)]
        if not environment:
            workers[0].close()
            workers[0] = first
        yield from ask_all(workers, group, lambda w, t: w.check(t.suite, t.entry, t.dtype))
    first.close()


def first_failures(answer: Answer) -> list[tuple[dict[str, Any], int]]:
    """Of each kind the first failure, and how many there are."""
    kinds = Counter((f["check"], f["reason"].split(":")[0]) for f in answer.failures)
    firsts: dict[tuple[str, str], dict[str, Any]] = {}
    for failure in answer.failures:
        firsts.setdefault((failure["check"], failure["reason"].split(":")[0]), failure)
    return [(failure, kinds[kind]) for kind, failure in firsts.items()]


@dataclass
class Progress:
    """Says what fails, and now and then how far the run is.

    Args:
        total: entries that are asked for, of which `rest` are to run.
        verbose: say what came of each entry.
    """

    total: int
    rest: int
    show: Callable[[str], None]
    verbose: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    start: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)

    def add(self, answer: Answer) -> None:
        self.counts[answer.status] += 1
        name = " ".join(w for w in (answer.suite, answer.entry, answer.dtype) if w)
        shown = first_failures(answer) if self.verbose or is_bad(answer) else []
        for first, _ in shown[: None if self.verbose else 1]:
            where = first["check"]
            where += f" of sample {first['sample']}" if first["sample"] >= 0 else ""
            self.show(f"{first['status'].upper()} {name}: {where}: {first['reason']}")
        if not answer.failures and self.verbose:
            on_host = sorted(f"{op} {dtype}" for op, dtype in answer.served(on_device=False))
            more = f"; on the host: {', '.join(on_host)}" if on_host else ""
            self.show(f"{name}: {answer.status}{more}")
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            done = self.counts.total()
            minutes = (now - self.start) / done * (self.rest - done) / 60
            known = self.total - self.rest + done
            of_kinds = ", ".join(f"{n} {status}" for status, n in sorted(self.counts.items()))
            self.show(f"[{known}/{self.total}] {of_kinds}; {minutes:.0f} min left")
