"""Runs the operator sweep of one dtype and writes its scoreboard.

    python -m tests.opinfo.sweep --dtype float32 --access shared --jobs 2

Results appear in `.test-results/opinfo/<dtype>-<access>.json` and `.md`. Exit status 1 means that
an entry which CPU can run is not right and not excluded.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.opinfo.worker import Answer, WorkerProcess
from tests.run import RESULTS, fingerprint

FOLDER = RESULTS / "opinfo"
NOT_RIGHT = ("wrong", "crash", "timeout")


def run_sweep(
    make_worker: Callable[[], WorkerProcess],
    entries: Iterable[str],
    dtype: str,
    jobs: int,
    done: Callable[[Answer], None],
) -> None:
    """Checks entries in `jobs` processes; `done` is called in the caller's thread, in any order."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    names = list(entries)
    for name in names:
        waiting.put(name)

    def work() -> None:
        worker = make_worker()
        try:
            while True:
                name = waiting.get_nowait()
                try:
                    answers.put(worker.check(name, dtype))
                except Exception as error:
                    reason = f"the worker does not start: {error!r}"
                    failure = {"check": "crash", "sample": -1, "reason": reason}
                    answers.put(Answer(name, "crash", failures=[failure]))
        except queue.Empty:
            worker.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for _ in names:
        done(answers.get())
    for thread in threads:
        thread.join()


def score(answers: Sequence[Answer]) -> tuple[int, int]:
    """How many entries are right, and how many CPU can run."""
    runnable = [a for a in answers if a.status != "not runnable"]
    return sum(a.status == "right" for a in runnable), len(runnable)


def scoreboard(dtype: str, access: str, answers: Sequence[Answer]) -> str:
    """As Markdown: the score, the entries that are not right, the exclusions that hid something."""
    right, runnable = score(answers)
    lines = [f"# Operator sweep: {dtype}, {access} memory", ""]
    excluded = sum(a.status == "excluded" for a in answers)
    lines += [f"Of {runnable} entries that CPU can run {right} are right, {excluded} excluded.", ""]
    checked = Counter(check for a in answers for check in a.checks)
    wrong = Counter(c for a in answers for c in {f["check"] for f in a.failures})
    lines += ["| check | entries | not right |", "|---|---|---|"]
    lines += [f"| {c} | {checked[c]} | {wrong[c]} |" for c in sorted({*checked, *wrong})]
    lines += ["", "## Not right", "", "| entry | check | sample | reason |", "|---|---|---|---|"]
    for answer in sorted(answers, key=lambda a: a.entry):
        for f in answer.failures:
            reason = f["reason"].replace("|", "\\|")
            lines.append(f"| {answer.entry} | {f['check']} | {f['sample']} | {reason} |")
    lines += ["", "## Excluded", "", "| entry | reason |", "|---|---|"]
    lines += [f"| {a.entry} | {reason} |" for a in answers for reason in a.excluded]
    return "\n".join(lines) + "\n"


def on_device_summary(answers: Sequence[Answer]) -> str:
    """How many operators launched device kernels, and how many entries did without the host."""
    overloads = {name for answer in answers for name in answer.on_device}
    operators = {name.partition("::")[2].partition(".")[0] for name in overloads}
    native = sum(bool(a.on_device) and not a.on_host and a.status == "right" for a in answers)
    return (
        f"{len(operators)} operators ({len(overloads)} overloads) launched device kernels; "
        f"{native} entries are right without a host kernel"
    )


class Journal:
    """Keeps answers as they come, so that a stopped sweep can go on."""

    def __init__(self, path: Path, resume: bool, again: Sequence[str] = ()) -> None:
        """`again`: entries that run once more; what is known of the others stays."""
        self.answers: list[Answer] = []
        self._path = path
        header = {"sources": fingerprint()}
        if (resume or again) and path.exists():
            lines = path.read_text().splitlines()
            if lines and (again or json.loads(lines[0]) == header):
                known = (Answer(**json.loads(line)) for line in lines[1:])
                self.answers = [
                    a
                    for a in known
                    if a.entry not in again and (again or a.status not in NOT_RIGHT)
                ]
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [header, *map(asdict, self.answers)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def add(self, answer: Answer) -> None:
        self.answers.append(answer)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(answer)) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.sweep", description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--access", choices=("shared", "separate"), default="shared")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="", help="default: the device of the backend")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one entry")
    parser.add_argument("--entry", action="append", help="only this entry; may be repeated")
    parser.add_argument("--driver", default="", help="default: as the environment says, else host")
    parser.add_argument("--way", choices=("auto", "device", "host"), default="")
    parser.add_argument("--resume", action="store_true", help="go on from a stopped sweep")
    options = parser.parse_args(argv)

    def make_worker() -> WorkerProcess:
        return WorkerProcess(
            options.device, options.access, options.timeout, options.driver, options.way
        )

    lister = make_worker()
    every = lister.entries(options.dtype)
    lister.close()
    if options.entry and (unknown := set(options.entry) - set(every)):
        parser.error(f"no entry takes {options.dtype} and is named {', '.join(sorted(unknown))}")
    extra = [word for word in (options.device, options.driver, options.way) if word]
    stem = "-".join([options.dtype, options.access, *extra])
    journal = Journal(FOLDER / f"{stem}.jsonl", options.resume, options.entry or ())
    finished = {answer.entry for answer in journal.answers}
    entries = [name for name in options.entry or every if name not in finished]
    ran: list[Answer] = []

    def done(answer: Answer) -> None:
        journal.add(answer)
        ran.append(answer)
        if answer.failures:
            first = answer.failures[0]
            print(f"{answer.entry}: {first['check']}: {first['reason']}", flush=True)
        elif options.entry:
            ways = f"device: {answer.on_device}, host: {answer.on_host}" if options.way else ""
            print(f"{answer.entry}: {answer.status} {ways}", flush=True)
        if len(journal.answers) % 25 == 0:
            right, runnable = score(journal.answers)
            print(f"[{len(journal.answers)}/{len(every)}] {right}/{runnable} right", flush=True)

    run_sweep(make_worker, entries, options.dtype, options.jobs, done)
    answers = sorted(journal.answers, key=lambda a: a.entry)
    right, runnable = score(answers)
    (FOLDER / f"{stem}.json").write_text(json.dumps([asdict(a) for a in answers], indent=1))
    (FOLDER / f"{stem}.md").write_text(scoreboard(options.dtype, options.access, answers))
    print(f"{options.dtype}, {options.access}: {right} of {runnable} entries right")
    if options.way == "device":
        print(on_device_summary(answers))
    print(f"scoreboard: {FOLDER / stem}.md")
    judged = ran if options.entry else answers
    return int(any(a.status in NOT_RIGHT for a in judged))


if __name__ == "__main__":
    sys.exit(main())
