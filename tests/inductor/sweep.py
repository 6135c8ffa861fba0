"""Runs the operator database compiled, and writes what is right.

    python -m tests.inductor.sweep --dtype float32 --driver ocl --resume

checks.py says what is compared. Results appear in `.test-results/inductor/<dtype>-<driver>.jsonl`,
a line for each entry; a stopped sweep goes on with --resume. What is known of other sources, or of
another number of samples, is not taken up. Exit status 1 means that an entry is wrong.
"""

import argparse
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.inductor.worker import Worker, answers_of
from tests.opinfo.sweep import Journal
from tests.opinfo.worker import Answer
from tests.run import RESULTS, fingerprint

FOLDER = RESULTS / "inductor"
SAMPLES = 3  # of an entry, from its first and last
TIMEOUT = 300  # seconds for an entry
BAD = ("wrong", "crash")
OUTCOMES = ("right", *BAD)


def work(dtype_name: str, dynamic: bool, count: int) -> None:
    """Answers names of entries on standard input with lines on standard output."""
    import logging

    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import torch_outboard
    from tests.inductor.checks import check_entry

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    dtype = getattr(torch, dtype_name)
    by_name = {op.full_name: op for op in op_db if dtype in op.dtypes}
    device = torch.device(torch_outboard.device_name())
    print(json.dumps(sorted(by_name)), file=answers, flush=True)
    for line in sys.stdin:
        answer = check_entry(by_name[line.strip()], dtype, device, dynamic, count)
        print(json.dumps(answer), file=answers, flush=True)


def worker(options: argparse.Namespace) -> Worker:
    """A process that checks entries."""
    environment = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    if options.driver:
        environment["OUTBOARD_DRIVER"] = options.driver
    if options.driver != "host":  # which may compile no kernels
        environment["OUTBOARD_PLACEMENT"] = os.environ.get("OUTBOARD_PLACEMENT", "device")
    command = ["-m", "tests.inductor.sweep", "--work"]
    command += ["--dtype", options.dtype, "--samples", str(options.samples)]
    command += ["--dynamic"] if options.dynamic else []
    return Worker(command, environment, TIMEOUT)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.inductor.sweep", description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--driver", default="", help="default: as the environment says")
    parser.add_argument("--dynamic", action="store_true", help="with dynamic shapes")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of an entry, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check entries")
    parser.add_argument("--entry", action="append", help="only this entry; may be repeated")
    parser.add_argument("--resume", action="store_true", help="keep what is known to be right")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of the answers")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work(options.dtype, options.dynamic, options.samples)
        return 0
    placement = os.environ.get("OUTBOARD_PLACEMENT", "") if options.driver == "host" else ""
    words = [options.dtype, options.driver, placement, "dynamic" if options.dynamic else ""]
    path = options.results / f"{'-'.join(word for word in words if word)}.jsonl"
    about = f"{fingerprint()}, {options.samples} samples"
    journal = Journal(path, options.resume, options.entry or (), about)
    workers = [worker(options) for _ in range(options.jobs)]
    listed = workers[0].names()
    if unknown := sorted(set(options.entry or ()) - set(listed)):
        workers[0].close()
        parser.error(f"no entry takes {options.dtype} and is named {', '.join(unknown)}")
    done = {answer.entry for answer in journal.answers}
    names = [name for name in options.entry or listed if name not in done]
    for answer in answers_of(workers, names):
        reasons = answer.pop("reasons")
        journal.add(Answer(**answer, failures=[{"reason": reason} for reason in reasons]))
        if answer["status"] in BAD:
            print(answer["entry"], answer["status"], *reasons, sep=": ", flush=True)
    counts = Counter(answer.status for answer in journal.answers)
    wrong = sum(counts[status] for status in BAD)
    rest = [f"{count} are {status}" for status, count in counts.items() if status not in OUTCOMES]
    print(f"{counts['right']} of {counts['right'] + wrong} entries are right", *rest, sep="; ")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
