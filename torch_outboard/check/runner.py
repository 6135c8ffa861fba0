"""Runs checks, each in a process: a crash or a hang is the result of one check.

Where opening the driver takes long, as with a compiler that is loaded first, a process goes on with
the next check as long as checks pass. One that failed behind others runs once more by itself, so
that the report tells whether it needs them.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torch_outboard.check import worker
from torch_outboard.check.catalog import Check
from torch_outboard.check.outcome import Outcome, Verdict

# A driver that opens faster gets a process for each check.
SOON = 0.25
OPENING = 120.0  # seconds
GRACE = 3.0  # seconds behind the limit of a check, in which its process says what hangs
RUNS = ("direct", "faults")


@dataclass
class Report:
    """The outcomes of all checks of a driver.

    Attributes:
        driver: the name or path that was asked for.
        device: the name of its first device.
        problem: why the driver cannot be opened; "" if it can.
        remark: what a run behind fault injection lacks; "" for nothing.
        outcomes: of each check and run.
        seconds: how long everything took.
    """

    driver: str
    device: str = ""
    problem: str = ""
    remark: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failures(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.verdict == Verdict.FAILED]


@dataclass(frozen=True)
class Options:
    """How checks are run.

    Attributes:
        runs: `"direct"`, and `"faults"` for a second time behind fault injection and validation.
        jobs: processes at once; 0: as many as there are processors, up to 4.
        settings: environment variables of the processes, besides those of this one.
        longest: the limit of every check in seconds, where its own is longer; 0: no other.
    """

    runs: Sequence[str] = RUNS
    jobs: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    longest: float = 0

    def limit(self, each: Check) -> float:
        return min(each.seconds, self.longest or each.seconds)


class _Problem(Exception):
    """The driver cannot be opened."""


class _Process:
    """A process that has opened the driver."""

    def __init__(self, wanted: str, behind_faults: bool, options: Options) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="outboard_check_")
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        arguments = wanted, behind_faults, self.folder, dict(options.settings), theirs
        self.process = context.Process(target=worker.work, args=arguments, daemon=True)
        begin = time.monotonic()
        self.process.start()
        theirs.close()
        self.checks: list[str] = []
        try:
            answer = _receive(self.pipe, OPENING)
        except EOFError:
            problem = f"loading or initializing it ended the process: {self._how_it_ended()}"
            self.end()
            raise _Problem(problem) from None
        if answer is None or answer[0] != "ready":
            self.end()
            late = f"loading and initializing it did not end within {OPENING:.0f} seconds"
            raise _Problem(late if answer is None else answer[1])
        self.device, self.remark = answer[1:]
        self.opened_soon = time.monotonic() - begin < SOON

    def _how_it_ended(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        how = f"exit status {code}"
        if code is not None and code < 0:
            how = f"signal {-code} ({signal.Signals(-code).name})"
        last = self._file("function").replace("\0", "")
        output = self._file("output").strip().splitlines()
        how += f", last called: `{last}`" if last else ""
        return how + (f", last output: {output[-1][:200]}" if output else "")

    def _file(self, name: str) -> str:
        path = Path(self.folder) / name
        return path.read_text(errors="replace") if path.exists() else ""

    def perform(self, each: Check, run: str) -> Outcome:
        """Runs a check; a crash or a hang is its outcome."""
        begin, limit = time.monotonic(), self.options.limit(each)
        self.checks.append(each.name)
        function = each.functions[0] if each.functions else "ob_driver_table"
        try:
            self.pipe.send((each.name, limit))
            answer = _receive(self.pipe, limit + GRACE)
        except (OSError, EOFError):
            got = f"the process ended by {self._how_it_ended()}"
            function = self._file("function").replace("\0", "") or function
        else:
            if isinstance(answer, Outcome):
                return answer
            under_way = answer[1] if answer is not None else []
            function = under_way[0] if under_way else function
            calls = ", ".join(f"`{name}`" for name in under_way)
            got = f"no end within {limit:.0f} seconds; " + (
                f"calls that did not return: {calls}" if calls else "no call is under way"
            )
        return Outcome(
            each.name,
            run,
            Verdict.FAILED,
            time.monotonic() - begin,
            function=function,
            says=each.says,
            expected=each.what,
            got=got,
            advice=each.advice,
        )

    def end(self) -> None:
        """Ends the process with all that the driver started."""
        pid = self.process.pid
        self.pipe.close()
        if pid is not None and self.process.is_alive():
            for kill in (os.killpg, os.kill):
                try:
                    kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
        self.process.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)


def _receive(pipe: Connection, seconds: float) -> Any:
    """What comes within a time, in which this process was not stopped; None for nothing.

    Raises:
        EOFError: if the other end is gone.
        OSError: the same.
    """
    left, last = seconds, time.monotonic()
    while left > 0:
        if pipe.poll(min(left, 0.5)):
            return pipe.recv()
        now = time.monotonic()
        left -= min(now - last, 1.0)
        last = now
    return None


def run_checks(
    wanted: str,
    checks: Sequence[Check],
    options: Options = Options(),
    *,
    on_outcome: Callable[[Outcome, int, int], None] = lambda *_: None,
) -> Report:
    """Runs checks of a driver.

    Args:
        wanted: the driver's name, or the path of its library.
        checks: what to run.
        options: how.
        on_outcome: called with each outcome, its number and the number of all.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload([worker.__name__])
    report, begin = Report(wanted), time.monotonic()
    jobs = options.jobs if options.jobs > 0 else min(len(os.sched_getaffinity(0)), 4)
    work = _Work(report, checks, options, on_outcome)
    try:  # before the threads, which would all find the same problem
        first = _Process(wanted, options.runs[0] == "faults", options)
    except _Problem as problem:
        report.problem = str(problem)
        return report
    report.device = first.device
    work.opened.put(first)
    threads = [threading.Thread(target=work.run, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if work.broken is not None:
        raise work.broken
    order = {each.name: i for i, each in enumerate(checks)}
    report.outcomes.sort(key=lambda each: (order[each.check], RUNS.index(each.run)))
    report.seconds = time.monotonic() - begin
    return report


class _Work:
    """Checks that are still to run, and what came of others."""

    def __init__(
        self,
        report: Report,
        checks: Sequence[Check],
        options: Options,
        on_outcome: Callable[[Outcome, int, int], None],
    ) -> None:
        self.report, self.options, self.on_outcome = report, options, on_outcome
        self.broken: BaseException | None = None
        # Processes that no thread has taken yet.
        self.opened: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._left: dict[str, queue.SimpleQueue[Check]] = {
            run: queue.SimpleQueue() for run in options.runs
        }
        self._all = 0
        for run in options.runs:
            # Long ones first: the last process to end alone would idle the others.
            for each in sorted(checks, key=lambda each: -each.seconds):
                if run == "direct" or not each.direct_only:
                    self._left[run].put(each)
                    self._all += 1

    def run(self) -> None:
        """Runs checks until none is left."""
        try:
            for run in self._left:
                self._run(run)
        except BaseException as error:
            self.broken = error

    def _run(self, run: str) -> None:
        process: _Process | None = self._taken(run)
        while (each := self._next(run)) is not None:
            try:
                process = process or self._open(run)
                outcome = process.perform(each, run)
                failed = outcome.verdict == Verdict.FAILED
                if failed and len(process.checks) > 1:
                    before = process.checks[:-1]
                    process.end()
                    process = self._open(run)
                    outcome = _after(outcome, process.perform(each, run), before)
            except _Problem as problem:
                process, failed = None, True
                outcome = _not_opened(each, run, str(problem))
            self._add(outcome)
            if process is not None and (failed or process.opened_soon):
                process.end()
                process = None
        if process is not None:
            process.end()

    def _open(self, run: str) -> _Process:
        process = _Process(self.report.driver, run == "faults", self.options)
        if process.remark:
            self.report.remark = process.remark
        return process

    def _taken(self, run: str) -> _Process | None:
        """A process of the first run that is open already."""
        if run != self.options.runs[0]:
            return None
        try:
            return self.opened.get_nowait()
        except queue.Empty:
            return None

    def _next(self, run: str) -> Check | None:
        try:
            return self._left[run].get_nowait()
        except queue.Empty:
            return None

    def _add(self, outcome: Outcome) -> None:
        with self._lock:
            self.report.outcomes.append(outcome)
            self.on_outcome(outcome, len(self.report.outcomes), self._all)


def _after(outcome: Outcome, alone: Outcome, before: Sequence[str]) -> Outcome:
    """The outcome of a check that failed behind others and then ran by itself."""
    if alone.verdict == Verdict.FAILED:
        return alone
    got = f"{outcome.got}; by itself the check passes, behind {', '.join(before)} it fails"
    return replace(outcome, got=got)


def _not_opened(each: Check, run: str, problem: str) -> Outcome:
    return Outcome(
        each.name,
        run,
        Verdict.FAILED,
        function="initialize",
        says="Looks for devices. Called once, before every other function but last_error",
        expected="a driver that can be opened",
        got=problem,
        advice="Open the driver again and again in new processes, and look at what differs.",
    )
