"""A process that checks entries of the operator database one by one, as it is told.

It reads one JSON request per line from standard input and answers each with one JSON line on the
standard output it was started with; whatever operators print goes to standard error. It may crash:
`WorkerProcess` on the other side takes that as the answer and starts a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.line_process import START_TIMEOUT, LineProcess
from tests.turns import number_of

# Instead of a dtype: tests.opinfo.refusals, tests.opinfo.layouts and tests.opinfo.arguments, which
# choose dtypes.
REFUSALS = "refusals"
LAYOUTS = "layouts"
ARGUMENTS = "arguments"
# One sample of an entry in one dtype, which both depend on the name of the turn.
TURN = "turn"
# The sweeps, one after the other.
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64",
)  # fmt: skip
# Of an overload, how many variations may end the process.
ENDS = 5
MEMORY = 3 << 30  # bytes that a worker may map for an entry


@dataclass
class Answer:
    """The outcome of an entry's checks.

    Args:
        status: "right", "excluded" (all that is wrong is excluded), "wrong", "crash", "timeout" or
            "not runnable" (CPU cannot run it either).
        samples: how many CPU could run, of `available` in the database.
        failures: rows of check, number of the sample, reason.
        excluded: reasons of the exclusions that hid failures.
        warned_otherwise: calls that warned more or less often than on CPU, if that was counted.
        ran: rows of operator, dtype and placement, where that was counted.
        notes: what is worth knowing about PyTorch and no failure.
        dtype: in which it was checked; "" if in none or several.
    """

    entry: str
    status: str
    samples: int = 0
    available: int = 0
    checks: list[str] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    seconds: float = 0.0
    warned_otherwise: int = 0
    ran: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dtype: str = ""

    @classmethod
    def read(cls, row: dict[str, Any]) -> Answer:
        """From JSON."""
        return cls(**{**row, "ran": [tuple(entry) for entry in row["ran"]]})

    def served(self, on_device: bool) -> set[tuple[str, str]]:
        """Operators with the dtypes on which device kernels, or host kernels, served calls."""
        return {(op, dtype) for op, dtype, placed in self.ran if (placed == "device") == on_device}


class WorkerProcess:
    """Runs a worker and keeps one running.

    Args:
        device: name of the device; "" is the device of the backend.
        access: how the host driver's memory is reached, "shared" or "separate".
        timeout: seconds that one entry may take.
        driver: which driver to run on; "" is the one of the environment, else `host`.
        placement: of operators, "device" or "host"; "" is the one of the environment. With
            "device" the answers say which operators launched device kernels.
        turn: the name of the turn, for that.
    """

    def __init__(
        self,
        device: str,
        access: str,
        timeout: float = 300.0,
        driver: str = "",
        placement: str = "",
        turn: str = "",
    ) -> None:
        self.timeout = timeout
        # In it the worker notes which call it makes next.
        self._mark = tempfile.NamedTemporaryFile("r")  # noqa: SIM115, lives as long as this object
        settings = {"device": device, "access": access, "driver": driver, "placement": placement}
        settings |= {"mark": self._mark.name, "turn": turn}
        environment = {
            "OMP_NUM_THREADS": "1",
            "OUTBOARD_HOST_ACCESS": access,
            "OUTBOARD_DRIVER": driver or os.environ.get("OUTBOARD_DRIVER", "host"),
            "OUTBOARD_PLACEMENT": placement,
            # glibc fills fresh memory, when it is told to, but not what comes from this cache.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        }
        self._process = LineProcess(
            ["-m", "tests.opinfo.worker", json.dumps(settings)],
            {name: value for name, value in environment.items() if value},
        )

    def entries(self, dtype: str) -> list[str]:
        """Names of the entries whose CPU kernels take the dtype, a name such as "float32".

        Of all entries for "refusals", "layouts" and "turn"; names of overloads for "arguments".
        """
        return json.loads(self._process.ask(json.dumps({"dtype": dtype}), START_TIMEOUT))

    def check(self, entry: str, dtype: str) -> Answer:
        """Runs all checks of an entry; whatever happens to the worker becomes the answer.

        The sweep over arguments goes on behind a call that ends the process.
        """
        start = time.monotonic()
        ended: list[dict[str, Any]] = []
        while True:
            without = [failure["sample"] for failure in ended]
            request = json.dumps({"entry": entry, "dtype": dtype, "without": without})
            try:
                answer = Answer.read(json.loads(self._process.ask(request, self.timeout)))
                break
            except (TimeoutError, EOFError, RuntimeError) as error:
                status = "timeout" if isinstance(error, TimeoutError) else "crash"
                failure = self._ended(str(error)) if dtype == ARGUMENTS else None
                if failure is None or failure["sample"] in without or len(ended) == ENDS:
                    failure = {"check": status, "sample": -1, "reason": str(error)}
                    answer = Answer(entry, status, failures=[failure])
                    break
                ended.append(failure)
        answer.failures = ended + answer.failures
        if ended and answer.status in ("right", "excluded"):
            answer.status = "crash"
        answer.seconds = round(time.monotonic() - start, 2)
        return answer

    def _ended(self, error: str) -> dict[str, Any] | None:
        """In which call the process ended; None if it has not begun one."""
        self._mark.seek(0)
        number, _, label = self._mark.read().partition(" ")
        if not label:
            return None
        return {"check": "end", "sample": int(number), "reason": f"{label}: {error}"}

    def close(self) -> None:
        self._process.close()
        self._mark.close()


def serve(settings: dict[str, str]) -> None:
    """The worker's side."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.opinfo.arguments.calls import reached
    from tests.opinfo.arguments.checks import check_arguments
    from tests.opinfo.checks import Limits, check_entry
    from tests.opinfo.exclusions import exclusions_for
    from tests.opinfo.layouts import check_layouts
    from tests.opinfo.refusals import check_refusals

    torch.set_num_threads(1)
    device = worker_device(settings["device"])
    entries = {op.full_name: op for op in op_db}
    print("ready", file=answers)

    def mark(words: str) -> None:
        Path(settings["mark"]).write_text(words)

    def check(name: str, dtype: str, without: list[int]) -> Answer:
        mark("")
        limit_memory()
        limits = None
        if dtype == TURN:
            taken = {str(d).removeprefix("torch.") for d in entries[name].supported_dtypes("cpu")}
            of_sweep = [d for d in DTYPES if d in taken]
            if not of_sweep:
                return Answer(name, "not runnable")
            turn, which = divmod(number_of(f"{settings['turn']} {name}"), len(of_sweep))
            limits, dtype = Limits(turn=turn), of_sweep[which]
        exclusions = exclusions_for(name, dtype, settings["access"], settings["placement"])
        unsafe = [exclusion for exclusion in exclusions if exclusion.unsafe]

        def left_out(check: str, number: int, label: str) -> bool:
            return number in without or any(e.hides(check, label) for e in unsafe)

        with counted(settings["placement"] == "device") as ran:
            if dtype == ARGUMENTS:
                result = check_arguments(name, device, left_out, mark)
            elif dtype in (REFUSALS, LAYOUTS):
                check_all = check_refusals if dtype == REFUSALS else check_layouts
                result = check_all(entries[name], device, backward=not unsafe)
            else:
                result = check_entry(
                    entries[name], getattr(torch, dtype), device, limits, backward=not unsafe
                )
        if not result.samples:
            return Answer(name, "not runnable", dtype=dtype)
        failures = [asdict(failure) for failure in result.failures]
        excluded = [exclusion.reason for exclusion in unsafe]
        for exclusion in exclusions:
            if exclusion.unsafe:
                continue
            rest = [f for f in failures if not exclusion.hides(f["check"], f["reason"])]
            seen = exclusion.check in result.checks and limits is None
            if seen and len(rest) == len(failures):
                reason = f"exclusion is needless: {exclusion.reason}"
                rest.append({"check": exclusion.check, "sample": -1, "reason": reason})
            elif len(rest) < len(failures):
                excluded.append(exclusion.reason)
            failures = rest
        status = "wrong" if failures else "excluded" if excluded else "right"
        return Answer(
            name, status, result.samples, result.available, sorted(result.checks), failures,
            excluded, warned_otherwise=result.warned_otherwise, ran=sorted(ran), notes=result.notes,
            dtype=dtype,
        )  # fmt: skip

    for line in sys.stdin:
        request = json.loads(line)
        if "entry" in request:
            answer: Any = asdict(
                check(request["entry"], request["dtype"], request.get("without", []))
            )
        elif request["dtype"] == ARGUMENTS:
            answer = list(reached())
        elif request["dtype"] in (REFUSALS, LAYOUTS, TURN):
            answer = list(entries)
        else:
            dtype = getattr(torch, request["dtype"])
            answer = [n for n, op in entries.items() if dtype in op.supported_dtypes("cpu")]
        print(json.dumps(answer), file=answers)


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


def limit_memory() -> None:
    """Calls with huge sizes raise, and do not take what the machine has."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def worker_device(name: str) -> Any:
    import torch

    if name == "cpu":
        return torch.device("cpu")
    import torch_outboard
    from torch_outboard import fallback

    fallback.set_policy(copied="allow")
    return torch.device(name or torch_outboard.device_name(), 0)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
