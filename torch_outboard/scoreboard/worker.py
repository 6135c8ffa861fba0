"""A process that checks entries one by one, as it is told.

It reads one JSON request per line from standard input and answers each with one JSON line on the
standard output it was started with; whatever operators print goes to standard error. It may crash
or hang: `WorkerProcess` on the other side records that as the outcome of the call in which it
happened, starts a new one, and goes on behind that call.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard.answers import (
    CRASH,
    HANG,
    NOT_ON_CPU,
    PASS,
    START,
    Answer,
    failure,
    worst,
)
from torch_outboard.scoreboard.exclusions import Exclusion, read_file, settle
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.processes import START_TIMEOUT, LineProcess
from torch_outboard.scoreboard.suites import SUITES, Suite
from torch_outboard.scoreboard.turns import number_of

# In place of a dtype: each entry in one dtype, by the name of the turn.
TURN = "turn"
ENDS = 5  # of the process in the checks of one entry, at most
MEMORY = 3 << 30  # bytes that a worker may map for an entry


@dataclass(frozen=True)
class Settings:
    """What a worker runs on.

    Args:
        device: name of the device; "" is the device of the backend.
        driver: name or path of its driver; "" is the one of the environment.
        access: how the host driver's memory is reached, "shared" or "separate"; "" as it is set.
        placement: of operators, "device" or "host"; "" is the one of the environment. With "device"
            answers say which operators launched device kernels.
        turn: name of the turn: one sample of each entry and check.
        samples: of an entry and check, at most; 0 as many as the check wants.
        checks: the checks that are wanted; all if there are none.
        exclusions: files of further exclusions.
        libraries: extensions to load first, for their kernels.
        strict: whether an exclusion of the kit that hides nothing is an error: on drivers of the
            kit.
        environment: further variables.
    """

    device: str = ""
    driver: str = ""
    access: str = ""
    placement: str = ""
    turn: str = ""
    samples: int = 0
    checks: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    strict: bool = True
    environment: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Environment of a worker."""
        given = {
            "OMP_NUM_THREADS": "1",
            "OUTBOARD_HOST_ACCESS": self.access,
            "OUTBOARD_DRIVER": self.driver,
            "OUTBOARD_PLACEMENT": self.placement,
            # glibc fills fresh memory, when it is told to, but not what comes from this cache.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
            **self.environment,
        }
        return {name: value for name, value in given.items() if value}


class WorkerProcess:
    """Runs a worker and keeps one running.

    Args:
        timeout: seconds that one entry may take.
    """

    def __init__(self, settings: Settings, timeout: float = 300.0) -> None:
        self.timeout = timeout
        # In it the worker notes which call it makes next.
        self._mark = tempfile.NamedTemporaryFile("r")  # noqa: SIM115, lives as long as this object
        told = json.dumps({**asdict(settings), "mark": self._mark.name})
        self._process = LineProcess(
            ["-m", "torch_outboard.scoreboard.worker", told], settings.variables()
        )

    def entries(self, suite: str, dtype: str = "") -> list[str]:
        """Names of the entries of a suite that take the dtype.

        Raises:
            RuntimeError: if they cannot be had.
        """
        request = json.dumps({"suite": suite, "dtype": dtype})
        try:
            answer = json.loads(self._process.ask(request, START_TIMEOUT))
        except (TimeoutError, EOFError) as error:
            raise RuntimeError(f"listing the entries of {suite} failed: {error}") from error
        return list(answer)

    def check(self, suite: str, entry: str, dtype: str = "") -> Answer:
        """Runs all checks of an entry; whatever happens to the worker becomes the answer."""
        start = time.monotonic()
        ended: list[dict[str, Any]] = []
        while True:
            without = [[f["check"], f["sample"]] for f in ended]
            # What ended the process twice, or takes all the time, is not tried again.
            gone = [f["check"] for f in ended]
            without += [[c, -1] for c in set(gone) if gone.count(c) > 1]
            without += [[f["check"], -1] for f in ended if f["status"] == HANG]
            request = {"suite": suite, "entry": entry, "dtype": dtype, "without": without}
            self._forget_mark()
            try:
                line = self._process.ask(json.dumps(request), self.timeout)
                answer = Answer.read(json.loads(line))
                break
            except (TimeoutError, EOFError, RuntimeError) as error:
                found = self._ended(error)
                known = any([found["check"], found["sample"]] == row for row in without)
                ended.append(found)
                if found["check"] == START or known or len(ended) > ENDS:
                    checks = sorted({f["check"] for f in ended})
                    answer = Answer(entry, PASS, suite, dtype, checks=checks)
                    break
        answer.failures = ended + answer.failures
        answer.checks = sorted({*answer.checks, *(f["check"] for f in ended)})
        if ended:
            answer.status = worst([answer.status, *(f["status"] for f in ended)])
        answer.seconds = round(time.monotonic() - start, 2)
        return answer

    def _forget_mark(self) -> None:
        os.truncate(self._mark.name, 0)

    def _ended(self, error: Exception) -> dict[str, Any]:
        """In which call the process ended, and how."""
        hung = isinstance(error, TimeoutError) or signal.SIGALRM.name in str(error)
        status = HANG if hung else CRASH
        self._mark.seek(0)
        noted = self._mark.read()
        if not noted or isinstance(error, RuntimeError):  # it did not start
            return failure(START, -1, str(error), status)
        check, sample, label = json.loads(noted)
        return failure(check, sample, f"{label}: {error}" if label else str(error), status)

    def close(self) -> None:
        self._process.close()
        self._mark.close()


# ---- the worker's side --------------------------------------------------------------------------


def serve(settings: dict[str, Any]) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    import torch

    from torch_outboard.loading.user_code import load_extensions
    from torch_outboard.scoreboard.suites import database

    torch.set_num_threads(1)
    device = worker_device(settings["device"])
    load_extensions(settings["libraries"])
    database.operators()
    more = tuple(e for path in settings["exclusions"] for e in read_file(Path(path)))
    print("ready", file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        suite, dtype = request["suite"], request["dtype"]
        if "entry" in request:
            answer: Any = asdict(answer_of(request, device, settings, more))
        else:
            # Most suites check the operators of the database.
            listed = getattr(module_of(suite), "entries", database.entries)
            answer = list(listed("" if dtype == TURN else dtype))
        print(json.dumps(answer), file=answers)


def module_of(suite: str) -> Any:
    name = SUITES[suite].module or suite
    return importlib.import_module(f"torch_outboard.scoreboard.suites.{name}")


def answer_of(
    request: dict[str, Any], device: Any, settings: dict[str, Any], more: Sequence[Exclusion]
) -> Answer:
    """Runs the checks of an entry."""
    name, entry, dtype = request["suite"], request["entry"], request["dtype"]
    suite, module = SUITES[name], module_of(name)
    limit_memory(suite)
    limits = Limits(most=settings["samples"])
    if dtype == TURN:
        dtype, limits.turn = turn_of(settings["turn"], entry)
        if not dtype:
            return Answer(entry, NOT_ON_CPU, name)
    exclusions = exclusions_of(name, entry, dtype, settings, more)
    result = EntryResult(only=frozenset(settings["checks"]))
    result.leaves_out = leaves_out(request["without"], exclusions, result)

    def mark(check: str, sample: int, label: str) -> None:
        Path(settings["mark"]).write_text(json.dumps([check, sample, label]))

    result.mark = mark
    with counted(settings["placement"] == "device") as ran:
        module.check(entry, dtype, device, result, limits)
    if not result.samples:
        return Answer(entry, NOT_ON_CPU, name, dtype, notes=result.notes)
    failures, excluded = settle(
        [failure(f.check, f.sample, f.reason) for f in result.failures],
        exclusions,
        result.checks,
        result.withheld,
        lambda e: limits.complete and (settings["strict"] or e in more),
    )
    answer = Answer(
        entry, PASS, name, dtype, result.samples, result.available, sorted(result.checks), failures,
        excluded, warned_otherwise=result.warned_otherwise, ran=sorted(ran), notes=result.notes,
    )  # fmt: skip
    answer.status = worst(answer.cells().values())
    return answer


def leaves_out(
    without: list[list[Any]], exclusions: Sequence[Exclusion], result: EntryResult
) -> Any:
    """Calls that ended the process before, and such that an unsafe exclusion names."""
    unsafe = [exclusion for exclusion in exclusions if exclusion.unsafe]

    def is_left_out(check: str, sample: int, label: str) -> bool:
        if any(e.hides(check, label) for e in unsafe):
            result.withheld.add(check)
            return True
        return [check, sample] in without or [check, -1] in without

    return is_left_out


def exclusions_of(
    suite: str, entry: str, dtype: str, settings: dict[str, Any], more: Sequence[Exclusion]
) -> list[Exclusion]:
    if suite == "arguments":
        from torch_outboard.scoreboard.suites.arguments.exclusions import EXCLUSIONS
    else:
        from torch_outboard.scoreboard.exclusion_table import EXCLUSIONS
    access, placement = settings["access"], settings["placement"]
    checks = SUITES[suite].checks
    return [
        e
        for e in (*EXCLUSIONS, *more)
        if e.check in checks and e.applies(entry, dtype, access, placement)
    ]


def turn_of(turn: str, entry: str) -> tuple[str, int]:
    """The dtype and the number of the sample that are in turn; no dtype if CPU takes none."""
    from torch_outboard.scoreboard.suites import DTYPES
    from torch_outboard.scoreboard.suites.database import operator

    taken = {str(d).removeprefix("torch.") for d in operator(entry).supported_dtypes("cpu")}
    of_sweep = [d for d in DTYPES if d in taken]
    if not of_sweep:
        return "", 0
    number, which = divmod(number_of(f"{turn} {entry}"), len(of_sweep))
    return of_sweep[which], number


@contextlib.contextmanager
def counted(wanted: bool) -> Iterator[set[tuple[str, str, str]]]:
    """Calls inside the block, by operator, dtype and placement, if wanted."""
    ran: set[tuple[str, str, str]] = set()
    if not wanted:
        yield ran
        return
    from torch_outboard import fallback

    with fallback.report() as report:
        yield ran
    ran |= {(row.op, str(row.dtype).removeprefix("torch."), row.placement) for row in report.rows}


def limit_memory(suite: Suite) -> None:
    """Calls with huge sizes raise, and do not take what the machine has."""
    if not suite.limits_memory:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def worker_device(name: str) -> Any:
    import torch

    if name == "cpu":
        return torch.device("cpu")
    import torch_outboard
    from torch_outboard import fallback

    if name in ("", torch_outboard.device_name()):
        fallback.set_policy(copied="allow")
    device = torch.device(name or torch_outboard.device_name(), 0)
    torch.empty(1, device=device)  # before memory is limited; raises if it cannot be used
    return device


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
