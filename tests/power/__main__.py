"""Shows what the default tests find: puts one fault after the other into a copy of the project.

    python -m tests.power [--fault NAME ...] [--near] [--save FILE]

Each fault of `tests/power/faults.py` changes one line. The copy in `build/power` is rebuilt where
the line is C or C++, and tests run until one fails: first those that `make test-changed` runs for
the file, then the whole default run. Without a fault the default run has to pass there first.

Results appear in `.test-results/power.json` after each fault; a stopped run goes on from there, and
begins anew when the sources have changed. Exit status 1 means that less than 90 % were found.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.power.faults import FAULTS, Fault
from tests.run import RESULTS, ROOT, fingerprint
from tests.version_tree import project_files, renew

TREE = ROOT / "build" / "power"
CACHE = ROOT / "build" / "power-cache"
RECORD = RESULTS / "power.json"
NATIVE = (".c", ".cpp", ".h")
LIMIT = 40 * 60  # seconds for the tests of one fault
WANTED = 0.9  # of the faults
FAILURE = re.compile(r"^(?:FAILED|ERROR) (.*)$", re.M)  # of pytest and of the sweeps


@dataclass(frozen=True)
class Result:
    """The outcome of a fault.

    Attributes:
        found: by "near" tests, by "default" ones, by the "build"; "" if by none.
        by: the first test that failed, or what else happened.
        seconds: of the tests.
    """

    name: str
    found: str
    by: str
    seconds: float


def apply(fault: Fault, tree: Path = TREE) -> None:
    """Puts a fault into a tree.

    Raises:
        ValueError: if the file does not have the text, or has it more than once.
    """
    file = tree / fault.file
    content = file.read_text()
    if content.count(fault.old) != 1:
        count = content.count(fault.old)
        raise ValueError(f"{fault.name}: {fault.file} has the text {count} times")
    file.write_text(content.replace(fault.old, fault.new))


def build(log: Path) -> bool:
    """Whether the copy builds."""
    with log.open("w") as output:
        command = ["make", "build"]
        return subprocess.run(command, cwd=TREE, stdout=output, stderr=output).returncode == 0


def environment() -> dict[str, str]:
    """Kernels that the run without a fault compiled are there; others stay apart."""
    shutil.rmtree(CACHE / "run", ignore_errors=True)
    if (CACHE / "start").exists():
        shutil.copytree(CACHE / "start", CACHE / "run", copy_function=os.link)
    return {**os.environ, "XDG_CACHE_HOME": str(CACHE / "run"), "TEST_TURN": "power"}


def run_tests(options: Sequence[str], log: Path) -> tuple[bool, str]:
    """Runs a suite in the copy: whether it passed, and what failed first."""
    command = [str(TREE / ".venv/bin/python"), "-m", "tests.run", *options, "--fail-fast"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=TREE,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            passed = process.wait(LIMIT) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return False, f"no end in {LIMIT // 60} minutes"
    failure = FAILURE.search(log.read_text(errors="replace"))
    return passed, "" if passed else failure[1] if failure else "a stage failed"


def examine(fault: Fault, near_alone: bool) -> Result:
    logs = RESULTS / "power"
    logs.mkdir(parents=True, exist_ok=True)
    native = fault.file.endswith(NATIVE)
    original = (TREE / fault.file).read_text()
    start = time.monotonic()
    try:
        apply(fault)
        if native and not build(logs / f"{fault.name}.build.log"):
            return Result(fault.name, "build", "it does not build", time.monotonic() - start)
        start = time.monotonic()
        suites = {"near": ["changed", "--path", fault.file], "default": ["default"]}
        for name, options in list(suites.items())[: 1 if near_alone else 2]:
            passed, failure = run_tests(options, logs / f"{fault.name}.{name}.log")
            if not passed:
                return Result(fault.name, name, failure, time.monotonic() - start)
        return Result(fault.name, "", "", time.monotonic() - start)
    finally:
        (TREE / fault.file).write_text(original)


def prepare() -> None:
    """Makes the copy, and runs the default tests in it without a fault.

    Raises:
        SystemExit: where it does not build, or a test fails.
    """
    renew(project_files(ROOT), ROOT, TREE)
    RESULTS.mkdir(exist_ok=True)
    if not build(RESULTS / "power-build.log"):
        sys.exit(f"The copy in {TREE} does not build; see {RESULTS / 'power-build.log'}.")
    passed, failure = run_tests(["default"], RESULTS / "power-tests.log")
    if not passed:
        sys.exit(f"Without a fault a test fails: {failure}; see {RESULTS / 'power-tests.log'}.")
    shutil.rmtree(CACHE / "start", ignore_errors=True)
    (CACHE / "run").rename(CACHE / "start")


def table(results: Sequence[Result]) -> str:
    """In Markdown."""
    faults = {fault.name: fault for fault in FAULTS}
    lines = ["| fault | kind | file | found by | seconds |", "|---|---|---|---|---|"]
    for result in results:
        fault = faults[result.name]
        by = f"{result.found}: `{result.by[:100]}`" if result.found else "**nothing**"
        lines.append(
            f"| {fault.name} | {fault.kind} | {fault.file} | {by} | {result.seconds:.0f} |"
        )
    found = sum(result.found != "" for result in results)
    return "\n".join([*lines, "", f"{found} of {len(results)} faults found."])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power", description=__doc__)
    parser.add_argument("--fault", action="append", help="only this one; may be repeated")
    parser.add_argument("--near", action="store_true", help="only the tests of `make test-changed`")
    parser.add_argument("--save", type=Path, help="a file for the table, in Markdown")
    options = parser.parse_args()
    known = {fault.name: fault for fault in FAULTS}
    names = options.fault or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"no fault {', '.join(sorted(unknown))}; there are {', '.join(known)}")

    state = fingerprint()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("sources") != state:
        prepare()
        record = {"sources": state, "results": {}}
        RECORD.write_text(json.dumps(record, indent=1))
    done = {name: Result(**result) for name, result in record["results"].items()}
    for number, name in enumerate(names, 1):
        if name not in done:
            done[name] = examine(known[name], options.near)
            if done[name].found or not options.near:
                record["results"][name] = asdict(done[name])
                RECORD.write_text(json.dumps(record, indent=1))
        result = done[name]
        by = f"{result.found}: {result.by}" if result.found else "NOT FOUND"
        print(f"[{number}/{len(names)}] {name}: {by}", flush=True)
    results = [done[name] for name in names]
    print(table(results))
    if options.save:
        options.save.write_text(table(results) + "\n")
    return int(sum(result.found != "" for result in results) < WANTED * len(results))


if __name__ == "__main__":
    sys.exit(main())
