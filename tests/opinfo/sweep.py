"""Runs the operator sweep of one dtype and writes its scoreboard.

    python -m tests.opinfo.sweep --dtype float32 --access shared --jobs 2

Results appear in `.test-results/opinfo/<dtype>-<access>.json` and `.md`. Exit status 1 means that
an entry which CPU can run is not right and not excluded.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests import turns
from tests.line_process import ask_all
from tests.opinfo.exclusions import exclusions_of
from tests.opinfo.worker import ARGUMENTS, LAYOUTS, REFUSALS, TURN, Answer, WorkerProcess
from tests.run import RESULTS, fingerprint

FOLDER = RESULTS / "opinfo"
NOT_RIGHT = ("wrong", "crash", "timeout")
NOT_DTYPES = (ARGUMENTS, LAYOUTS, REFUSALS, TURN)


def score(answers: Sequence[Answer]) -> tuple[int, int]:
    """How many entries are right, and how many CPU can run."""
    runnable = [a for a in answers if a.status != "not runnable"]
    return sum(a.status == "right" for a in runnable), len(runnable)


def totals(answers: Sequence[Answer]) -> str:
    """Of samples, in words."""
    samples = sum(a.samples for a in answers)
    available = sum(a.available for a in answers)
    if not available:
        return ""
    warned = sum(a.warned_otherwise for a in answers)
    warnings = f"; {warned} warned more or less often than on CPU" if warned else ""
    return f"{samples} samples ran, of {available} in the database{warnings}"


def first_failures(answer: Answer) -> list[tuple[dict[str, Any], int]]:
    """Of each kind the first failure, and how many there are."""
    kinds = Counter((f["check"], f["reason"].split(":")[0]) for f in answer.failures)
    firsts: dict[tuple[str, str], dict[str, Any]] = {}
    for failure in answer.failures:
        firsts.setdefault((failure["check"], failure["reason"].split(":")[0]), failure)
    return [(failure, kinds[kind]) for kind, failure in firsts.items()]


def scoreboard(dtype: str, access: str, answers: Sequence[Answer], sources: str) -> str:
    """As Markdown: the score, the entries that are not right, the exclusions that hid something."""
    right, runnable = score(answers)
    lines = [f"# Operator sweep: {dtype}, {access} memory", ""]
    excluded = sum(a.status == "excluded" for a in answers)
    lines += [f"Of {runnable} entries that CPU can run {right} are right, {excluded} excluded."]
    lines += [totals(answers) + ".", f"Sources: {sources}.", ""]
    checked = Counter(check for a in answers for check in a.checks)
    wrong = Counter(c for a in answers for c in {f["check"] for f in a.failures})
    lines += ["| check | entries | not right |", "|---|---|---|"]
    lines += [f"| {c} | {checked[c]} | {wrong[c]} |" for c in sorted({*checked, *wrong})]
    lines += ["", "## Not right", "", "| entry | check | sample | reason |", "|---|---|---|---|"]
    for answer in sorted(answers, key=lambda a: a.entry):
        for f, count in first_failures(answer):
            reason = f["reason"].replace("|", "\\|")
            more = f" ({count} samples)" if count > 1 else ""
            lines.append(f"| {answer.entry} | {f['check']} | {f['sample']} | {reason}{more} |")
    lines += ["", "## Excluded", "", "| entry | reason |", "|---|---|"]
    lines += [f"| {a.entry} | {reason} |" for a in answers for reason in a.excluded]
    if notes := [(a.entry, note) for a in answers for note in a.notes]:
        lines += ["", "## What PyTorch does otherwise by itself", ""]
        lines += ["Meta tensors do not say what CPU does, or CPU has nothing to compare with.", ""]
        lines += ["| entry | where, and what |", "|---|---|"]
        lines += [f"| {entry} | {' '.join(note.split())} |" for entry, note in notes]
    return "\n".join(lines) + "\n"


def operator_name(overload: str) -> str:
    """`add` of `aten::add.Tensor`."""
    return overload.partition("::")[2].partition(".")[0]


def native_entries(answers: Sequence[Answer]) -> int:
    """Entries that are right, ran device kernels and no host kernel."""
    return sum(
        a.status == "right" and bool(a.served(on_device=True)) and not a.served(on_device=False)
        for a in answers
    )


def on_device_summary(answers: Sequence[Answer]) -> str:
    """Operators and dtypes with device kernels, and the number of entries without the host."""
    on_device = {pair for answer in answers for pair in answer.served(on_device=True)}
    on_host = {pair for answer in answers for pair in answer.served(on_device=False)}
    overloads = {name for name, _ in on_device}
    return (
        f"{len(set(map(operator_name, overloads)))} operators ({len(overloads)} overloads, "
        f"{len(on_device)} with their dtypes) launched device kernels; {len(on_device & on_host)} "
        f"of the last ran on the host, too; {native_entries(answers)} entries are right "
        "without a host kernel"
    )


class Journal:
    """Keeps answers as they come, so that a stopped sweep can go on."""

    def __init__(
        self, path: Path, resume: bool, again: Sequence[str] = (), sources: str | None = None
    ) -> None:
        """Answers of other sources are never taken up.

        Args:
            resume: what is right already stays, and need not run again.
            again: entries that run once more; what is known of the others stays.
            sources: what the answers are about; default: the fingerprint of the tree.
        """
        self.answers: list[Answer] = []
        self.sources = fingerprint() if sources is None else sources
        self._path = path
        header = {"sources": self.sources}
        lines = path.read_text().splitlines() if path.exists() else []
        self.of_others = bool(lines) and json.loads(lines[0]) != header
        if (resume or again) and lines and not self.of_others:
            known = (Answer.read(json.loads(line)) for line in lines[1:])
            self.answers = [
                a for a in known if a.entry not in again and (again or a.status not in NOT_RIGHT)
            ]
        # A few entries alone do not replace what is known of another state of the tree.
        self.saved = not (again and self.of_others)
        if self.saved:
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [header, *map(asdict, self.answers)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def add(self, answer: Answer) -> None:
        self.answers.append(answer)
        if not self.saved:
            return
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(answer)) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.sweep", description=__doc__)
    parser.add_argument(
        "--dtype",
        default="float32",
        help=f"or {REFUSALS}: wrong arguments and dtypes of all entries; or {LAYOUTS}: shapes and "
        f"strides for arguments of every layout; or {ARGUMENTS}: unusual arguments of all "
        "overloads with device kernels, which are the entries then; "
        f"or {TURN}: one sample of each entry in one dtype",
    )
    parser.add_argument(
        "--turn", default="", help=f"which sample and dtype; default for {TURN}: by the commit"
    )
    parser.add_argument("--access", choices=("shared", "separate"), default="shared")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="", help="default: the device of the backend")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one entry")
    parser.add_argument("--entry", action="append", help="only this entry; may be repeated")
    parser.add_argument("--driver", default="", help="default: as the environment says, else host")
    parser.add_argument("--placement", choices=("auto", "device", "host"), default="")
    parser.add_argument("--resume", action="store_true", help="go on from a stopped sweep")
    options = parser.parse_args(argv)

    turn = ""
    if options.dtype == TURN:
        turn = options.turn or f"{options.driver} {options.placement} {turns.turn()}".strip()
        print(f'turn "{turn}"', flush=True)

    def make_worker() -> WorkerProcess:
        return WorkerProcess(
            options.device, options.access, options.timeout, options.driver, options.placement, turn
        )

    lister = make_worker()
    every = lister.entries(options.dtype)
    lister.close()
    # An exclusion of an entry that is not there would stay forever.
    excluded = {exclusion.entry for exclusion in exclusions_of(options.dtype)}
    if options.dtype in NOT_DTYPES and (gone := excluded - set(every)):
        parser.error(f"exclusions of entries that are not there: {', '.join(sorted(gone))}")
    if options.entry and (unknown := set(options.entry) - set(every)):
        parser.error(f"no entry takes {options.dtype} and is named {', '.join(sorted(unknown))}")
    extra = [word for word in (options.device, options.driver, options.placement) if word]
    stem = "-".join([options.dtype, options.access, *extra])
    journal = Journal(FOLDER / f"{stem}.jsonl", options.resume, options.entry or ())
    finished = {answer.entry for answer in journal.answers}
    entries = [name for name in options.entry or every if name not in finished]
    ran: list[Answer] = []
    workers = [make_worker() for _ in range(options.jobs)]
    for answer in ask_all(workers, entries, lambda worker, name: worker.check(name, options.dtype)):
        journal.add(answer)
        ran.append(answer)
        if answer.failures:
            for first, _ in first_failures(answer)[: None if options.entry else 1]:
                name = f"{answer.entry} {answer.dtype}".strip()
                where = f"{first['check']} of sample {first['sample']}"
                print(f"FAILED {name}: {where}: {first['reason']}", flush=True)
        elif options.entry:
            ran_at = f"{answer.ran}" if options.placement else ""
            print(f"{answer.entry}: {answer.status} {ran_at}", flush=True)
        if len(journal.answers) % 25 == 0:
            right, runnable = score(journal.answers)
            print(f"[{len(journal.answers)}/{len(every)}] {right}/{runnable} right", flush=True)
    answers = sorted(journal.answers, key=lambda a: a.entry)
    right, runnable = score(answers)
    print(f"{options.dtype}, {options.access}: {right} of {runnable} entries right")
    print(totals(answers))
    if options.placement == "device":
        print(on_device_summary(answers))
    if journal.saved:
        (FOLDER / f"{stem}.json").write_text(json.dumps([asdict(a) for a in answers], indent=1))
        board = scoreboard(options.dtype, options.access, answers, journal.sources)
        (FOLDER / f"{stem}.md").write_text(board)
        print(f"scoreboard: {FOLDER / stem}.md")
    else:
        print(f"{FOLDER / stem}.md stays as it was: it is about other sources")
    counted = ran if options.entry else answers
    return int(any(a.status in NOT_RIGHT for a in counted))


if __name__ == "__main__":
    sys.exit(main())
