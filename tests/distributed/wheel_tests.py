"""Runs distributed tests of PyTorch's wheel on the device: those that CPU passes by Gloo.

    python -m tests.distributed.wheel_tests --access separate --jobs 2

Results appear in `.test-results/distributed/<driver>-<access>.jsonl` and `.md`, those of CPU in
`cpu.jsonl`. Exit status 1 means that a test which passes on CPU fails and is not excluded
(`wheel/exclusions.py`).
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.distributed.wheel.exclusions import EXCLUSIONS, exclusion_of
from tests.run import RESULTS, fingerprint
from torch_outboard.scoreboard.answers import (
    CRASH,
    EXCLUDED,
    FAIL,
    HANG,
    NOT_ON_CPU,
    PASS,
    Answer,
    Journal,
    failure,
    is_bad,
)
from torch_outboard.scoreboard.processes import START_TIMEOUT, LineProcess, ask_all

FOLDER = RESULTS / "distributed"
RANKS = 4
# Some tests of groups ask for more.
MORE_RANKS = 8
STATUSES = {"passed": PASS, "failed": FAIL, "skipped": NOT_ON_CPU, "timeout": HANG, "crash": CRASH}
TOO_FEW = "Skipped due to small world size."


class Worker:
    """Processes that run tests, one for each number of ranks.

    Args:
        side: "cpu" or "device".
        driver: as OUTBOARD_DRIVER; "" is the one of the environment, else `host`.
        access: "shared" or "separate", for the driver `host`.
        timeout: seconds for one test.
    """

    def __init__(self, side: str, driver: str, access: str, timeout: float = 300.0) -> None:
        self.side = side
        self.timeout = timeout
        self._environment = {
            "BACKEND": "gloo",
            # Ranks use the device, which the process that they are forked from must not have done.
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "OUTBOARD_DRIVER": driver or os.environ.get("OUTBOARD_DRIVER", "host"),
            "OUTBOARD_HOST_ACCESS": access,
            "OMP_NUM_THREADS": "1",
        }
        self._processes: dict[int, LineProcess] = {}

    def process(self, ranks: int) -> LineProcess:
        """The one whose tests have so many ranks; it may not have been started."""
        if ranks not in self._processes:
            self._processes[ranks] = LineProcess(
                ["-m", "tests.distributed.wheel.worker", self.side],
                {**self._environment, "WORLD_SIZE": str(ranks)},
            )
        return self._processes[ranks]

    def names(self) -> list[str]:
        """Of the tests that it has."""
        return json.loads(self.process(RANKS).start())

    def run(self, test: str) -> Answer:
        """With as many ranks as the test asks for."""
        answer = self._ask(test, RANKS)
        if answer.failures and answer.failures[0]["reason"] == TOO_FEW:
            answer = self._ask(test, MORE_RANKS)
        return answer

    def _ask(self, test: str, ranks: int) -> Answer:
        request = json.dumps({"name": test, "timeout": self.timeout})
        try:
            # It ends a test itself, and its ranks, when its time is up.
            row = json.loads(self.process(ranks).ask(request, 2 * self.timeout + START_TIMEOUT))
        except (TimeoutError, EOFError, RuntimeError) as error:
            return Answer(test, CRASH, failures=[failure("test", -1, str(error), CRASH)])
        status = STATUSES[row["status"]]
        answer = Answer(test, status, samples=ranks, seconds=row["seconds"])
        if status != PASS:
            row = {**failure("test", -1, row["reason"], status), "output": row["output"]}
            answer.failures.append(row)
        return answer

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()


def without_excluded(answer: Answer) -> Answer:
    """On the device: what is excluded does not count, and what need not be excluded does."""
    exclusion = exclusion_of(answer.entry)
    if exclusion is None:
        return answer
    if answer.status == PASS:
        if not exclusion.always:
            return answer
        reason = f"exclusion is needless: {exclusion.reason}"
        return Answer(answer.entry, FAIL, failures=[failure("test", -1, reason)])
    if answer.status == FAIL and exclusion.hides(answer.failures[0]["reason"]):
        row = {"check": "test", "reason": exclusion.reason, "owner": "PyTorch"}
        return Answer(answer.entry, EXCLUDED, excluded=[row], seconds=answer.seconds)
    return answer


def last_line(reason: str) -> str:
    """The last line of a traceback of PyTorch's tests, without its advice."""
    lines = [line for line in reason.partition("To execute this test")[0].splitlines() if line]
    errors = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (errors or lines or [""])[-1].strip()[:300]


def scoreboard(title: str, answers: Sequence[Answer], available: int) -> str:
    """As Markdown."""
    counts = Counter(answer.status for answer in answers)
    lines = [
        f"# Distributed tests of the wheel: {title}", "",
        f"Of {available} tests CPU passes {len(answers)} by Gloo; of these {counts[PASS]} pass, "
        f"{counts[EXCLUDED]} are excluded.", "",
        "| test | | reason |", "|---|---|---|",
    ]  # fmt: skip
    for answer in answers:
        reason = [row["reason"] for row in answer.excluded] or [
            last_line(f["reason"]) for f in answer.failures
        ]
        if answer.status != PASS:
            lines.append(f"| {answer.entry} | {answer.status} | {reason[0].replace('|', ' ')} |")
    return "\n".join(lines) + "\n"


def names_of_tests() -> list[str]:
    worker = Worker("cpu", "", "shared")
    names = worker.names()
    worker.close()
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.distributed.wheel_tests", description=__doc__
    )
    parser.add_argument("--driver", default="", help="default: as the environment says, else host")
    parser.add_argument("--access", choices=("shared", "separate"), default="shared")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one test")
    parser.add_argument("--test", action="append", help="only this test; may be repeated")
    parser.add_argument("--resume", action="store_true", help="go on from a stopped run")
    options = parser.parse_args(argv)

    import torch

    every = names_of_tests()
    if options.test and (unknown := set(options.test) - set(every)):
        parser.error(f"no test is named {', '.join(sorted(unknown))}")
    if gone := {exclusion.test for exclusion in EXCLUSIONS} - set(every):
        parser.error(f"exclusions of tests that are not there: {', '.join(sorted(gone))}")
    versions = f"torch {torch.__version__}, Python {sys.version.split()[0]}"
    on_cpu = Journal(FOLDER / "cpu.jsonl", versions)
    known = {answer.entry for answer in on_cpu.answers}
    missing = [name for name in options.test or every if name not in known]
    if missing:
        print(f"{len(missing)} tests on CPU first", flush=True)
        workers = [Worker("cpu", "", "shared", options.timeout) for _ in range(options.jobs)]
        for answer in ask_all(workers, missing, Worker.run):
            on_cpu.add(answer)
    passed = sorted(a.entry for a in on_cpu.answers if a.status == PASS)

    driver = options.driver or os.environ.get("OUTBOARD_DRIVER", "host")
    stem = f"{Path(driver).stem}-{options.access}"

    def again(answer: Answer) -> bool:
        if options.test:
            return answer.entry in options.test
        return is_bad(answer) or not options.resume

    path = FOLDER / f"{stem}.jsonl"
    journal = Journal(path, fingerprint(), again, few=bool(options.test))
    finished = {answer.entry for answer in journal.answers}
    tests = [t for t in passed if t not in finished and t in (options.test or passed)]
    ran: list[Answer] = []
    device = "device", options.driver, options.access, options.timeout
    workers = [Worker(*device) for _ in range(options.jobs)]
    for answer in map(without_excluded, ask_all(workers, tests, Worker.run)):
        journal.add(answer)
        ran.append(answer)
        if is_bad(answer):
            reason = answer.failures[0]["reason"]
            print(f"{answer.entry}: {reason if options.test else last_line(reason)}", flush=True)
            if options.test:
                print(answer.failures[0].get("output", ""))
        elif options.test:
            print(f"{answer.entry}: {answer.status}")
    answers = sorted(ran if options.test else journal.answers, key=lambda a: a.entry)
    counts = Counter(answer.status for answer in answers)
    print(
        f"{driver}, {options.access}: of {len(answers)} tests that CPU passes {counts[PASS]} pass, "
        f"{counts[EXCLUDED]} are excluded"
    )
    if not options.test:
        title = f"{driver}, {options.access} memory, {versions}"
        (FOLDER / f"{stem}.md").write_text(scoreboard(title, answers, len(every)))
        print(f"scoreboard: {FOLDER / stem}.md")
    return int(any(map(is_bad, answers)))


if __name__ == "__main__":
    sys.exit(main())
