"""Runs named steps on a machine with a GPU that is lent for minutes: the most valuable first.

    python -m tools.gpu_run --seconds 330 --commit $(git rev-parse --short HEAD) --output OUT
    python -m tools.gpu_run --merge OUT/steps.json   # adds results of another machine to the file
    python -m tools.gpu_run --list

Each step has a time limit, and writes its log and its result at once, so that a stop in the middle
loses nothing. `benchmarks/results/gpu-steps.json` stores the commit at which each step succeeded;
steps that succeeded at this commit are left out.

On a machine without a GPU, `--emulated` runs the steps that can run there: PoCL declares itself a
GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "gpu-steps.json"
PYTEST = "{python} -m pytest --configuration ocl -q -m 'not slow' -n {jobs} -p no:cacheprovider"
CUDA = "{python} -m benchmarks.against_cuda --rounds 5"


@dataclass(frozen=True)
class Step:
    """A command line, in which `{python}` and `{jobs}` are replaced; `emulated`: without a GPU."""

    name: str
    command: str
    limit: int  # seconds
    emulated: str = ""


UNITS = "{python} -m tests.device_kernels.products.matrix_unit_calls"
ATTENTION = "{python} -m tests.device_kernels.products.attention_unit_calls"
STEPS = (
    Step("doctor", "{python} -m torch_outboard doctor", 40, "{python} -m torch_outboard doctor"),
    Step("attention", ATTENTION, 60, f"{ATTENTION} emulated"),
    Step("matrix units", UNITS, 90, f"{UNITS} warpgroups 9"),
    Step("halves against CUDA", f"{CUDA} --group halves --save gpu-halves", 90),
    Step("autocast steps against CUDA", f"{CUDA} --group autocast --save gpu-autocast", 90),
    Step(
        "tests of products",
        f"{PYTEST} tests/device_kernels/products tests/device_kernels/images/test_convolution.py",
        150,
        "{python} -m pytest --configuration gpu -q -n {jobs} tests/device_kernels/test_refusals.py",
    ),
    Step("launches against CUDA", f"{CUDA} --group launches --save gpu-launches", 60),
    Step("products against CUDA", f"{CUDA} --group products --save gpu-products", 60),
    Step("steps against CUDA", f"{CUDA} --group steps --save gpu-steps", 60),
    Step("compiled steps against CUDA", f"{CUDA} --group compiled --save gpu-compiled", 120),
    Step("tests of kernels", f"{PYTEST} tests/device_kernels", 280),
    Step("operators against CUDA", f"{CUDA} --group operators --save gpu-operators", 120),
    Step("tests of the contract", f"{PYTEST} tests/drivers", 200),
    Step("tests of Inductor", f"{PYTEST} tests/inductor", 400),
    *(
        Step(
            f"scoreboard, {dtype}",
            f"{{python}} -m torch_outboard scoreboard --suite operators --dtype {dtype} "
            "--driver ocl --placement device --jobs {jobs}",
            500,
        )
        for dtype in ("float32", "float16", "bfloat16")
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step: `status` is that of the process, or -1 after its time limit."""

    step: str
    commit: str
    status: int
    seconds: float
    date: str
    card: str


def card() -> str:
    """The GPU's name and its driver's version."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def run(step: Step, command: str, limit: float, output: Path, commit: str) -> Outcome:
    """Runs a step, with its log in `output`."""
    start = time.monotonic()
    line = command.format(python=sys.executable, jobs=max((os.cpu_count() or 2) - 2, 2))
    log = output / f"{step.name.replace(' ', '-').replace(',', '')}.log"
    with log.open("w") as file:
        try:
            status = subprocess.run(
                f"exec timeout -k 5 {limit:.0f} {line}",
                shell=True, stdout=file, stderr=subprocess.STDOUT, check=False,
            ).returncode  # fmt: skip
        except KeyboardInterrupt:
            status = -1
    if status in (124, 137):
        status = -1
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Outcome(step.name, commit, status, round(time.monotonic() - start, 1), today, card())


def known(path: Path) -> dict[str, dict[str, object]]:
    return json.loads(path.read_text()) if path.exists() else {}


def remember(path: Path, outcomes: dict[str, dict[str, object]]) -> None:
    path.write_text(json.dumps({**known(path), **outcomes}, indent=1) + "\n")


def word(status: object) -> str:
    if status == 0:
        return "passed"
    return "time was over" if status == -1 else f"failed: {status}"


def described(outcome: dict[str, object] | None) -> str:
    """The outcome of a step, with its commit."""
    if outcome is None:
        return "never ran"
    return f"{word(outcome['status'])} at {outcome['commit']}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="steps to run; by default all")
    parser.add_argument("--seconds", type=float, default=330, help="for all steps together")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--output", type=Path, default=Path("gpu-output"))
    parser.add_argument(
        "--again", action="store_true", help="also steps that succeeded at this commit"
    )
    parser.add_argument("--emulated", action="store_true", help="without a GPU")
    parser.add_argument("--merge", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - {step.name for step in STEPS}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}; --list shows them")
    if options.merge:
        remember(RESULTS, known(options.merge))
        return 0
    if options.list:
        for step in STEPS:
            print(f"{step.name:30} {described(known(RESULTS).get(step.name))}")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    failed = 0
    for step in STEPS:
        before = known(RESULTS).get(step.name, {})
        command = step.emulated if options.emulated else step.command
        done = before.get("status") == 0 and before.get("commit") == options.commit
        if (options.names and step.name not in options.names) or not command:
            continue
        if done and not options.again:
            continue
        rest = end - time.monotonic()
        if rest < 10:
            print(f"{step.name}: no time left")
            continue
        outcome = run(step, command, min(step.limit, rest), options.output, options.commit)
        remember(options.output / "steps.json", {step.name: asdict(outcome)})
        failed += outcome.status != 0
        print(f"{step.name}: {word(outcome.status)}, {outcome.seconds} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
