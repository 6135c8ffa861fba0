"""Runs the tests as `make test` and `make test-full` do: stage by stage, one summary at the end.

The same tests run in several settings of the host driver, and those of device kernels on `ocl`,
also with a device that says it is a GPU. A stage is one such run, in a separate process, because
the driver and its settings are fixed when the device is first used.

A few tests that fail run again, alone, and the end names them and says what came of it. The stage
has failed all the same: what fails now and then is as wrong as what always does.
"""

import argparse
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from tests import changed, turns

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".test-results"
CLOSING = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+|no tests ran) in [\d.]+s.*$")
# Those of pytest's own summary, which long runs print far above the end.
FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S.*)$")
FAILURES_SHOWN = 12
FAILURE_WIDTH = 300  # characters
RUN_AGAIN = 5  # tests of a stage, at most
NO_TESTS_COLLECTED = 5
LOW_PRIORITY = 10  # of processes, as of `nice`
CLANG_DRIVER = (
    "tests/drivers/test_host_kernels.py",
    "tests/drivers/test_driver_programs.py",
    "tests/drivers/test_checks.py",
)
CLANG_KERNELS = (
    "tests/device_kernels/test_every_family.py",
    # Its graphs are not those of the driver `ocl`.
    "tests/device_kernels/programs/test_graphed_callables.py",
    # Its launches record no events of their own.
    "tests/profiler/test_kernels.py",
    "tests/inductor/kernel/reduction/test_reductions.py",
)

# Those that a driver with kernels runs, whose every process waits for kernels that are compiled.
# Examples are run for each driver by whatever stage has them, but for this one.
KERNEL_TESTS = (
    "tests/device_kernels", "tests/programs", "tests/profiler", "tests/inductor",
    "tests/examples/test_profile_training.py",
)  # fmt: skip
KERNEL_TESTS_BY_DEFAULT = ("tests/distributed/parallelism/test_data_parallel.py",)
KERNEL_TESTS_IN_FULL = ("tests/distributed/parallelism",)

# Tests that `separate` and `ocl` run by default. On shared memory they take the same steps without
# copies.
RUN_ELSEWHERE = ("tests/programs",)

# Tests of kernels that have forms for GPUs alone.
GPU_FORMS = (
    "tests/device_kernels/test_every_family.py",
    *(f"tests/device_kernels/{folder}" for folder in ("images", "indexing", "reductions")),
    "tests/device_kernels/products/test_matrix_product.py",
    "tests/device_kernels/products/test_attention.py",
)

# One sample of every operator, where `changed` asks for it.
TURN = "turn"


@dataclass(frozen=True)
class Stage:
    name: str
    arguments: tuple[str, ...]
    driver: str = "host"
    # A stage of tests that device kernels alone can pass fails where there are none.
    needs_kernels: bool = False
    # The driver `host` has kernels where there is a clang; most stages are without.
    clang: bool = False
    # The command that runs named tests in the same setting; empty where that is not possible.
    again: tuple[str, ...] = ()
    # Whether it runs at low priority while other stages run: these leave processors idle.
    beside: bool = False
    # Whether it passes where none of its tests is in turn.
    may_be_empty: bool = False


def pytest_stage(
    configuration: str,
    marker: str | None,
    tests: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Stage:
    """Tests in files and folders; by default all that need no device which compiles kernels."""
    selection = ("-m", marker) if marker else ()
    folders = without if tests else (*without, *changed.NEED_A_COMPILER)
    selection += tuple(f"--ignore={folder}" for folder in folders)
    arguments = ("-m", "pytest", "--configuration", configuration, *selection)
    report = f"--junitxml={RESULTS / configuration}.xml"
    again = ("-m", "pytest", "--configuration", configuration, "-q")
    # One more than the processors: many tests wait for separate processes, or for time.
    spread = ("-n", str(jobs() + 1), "--dist", "worksteal")  # neighbours share fixtures
    arguments = (*arguments, "-q", *spread, report, *tests)
    return Stage(configuration, arguments, again=again)


def marked_stage(mark: str, below: Sequence[str] = ("tests",)) -> Stage:
    """The tests with a mark; files without it are not imported, which takes long."""
    return pytest_stage(mark, f"{mark} and not slow", changed.marked_files(mark, below))


def kernels_stage(marker: str | None, configuration: str = "ocl") -> Stage:
    """The tests of device kernels and of what uses them, which need a driver that compiles."""
    more = KERNEL_TESTS_IN_FULL if marker is None else KERNEL_TESTS_BY_DEFAULT
    return on_ocl(pytest_stage(configuration, marker, (*KERNEL_TESTS, *more)))


def on_ocl(stage: Stage) -> Stage:
    return replace(stage, driver="ocl", needs_kernels=True)


def has_clang() -> bool:
    """Whether this machine has one that the driver `host` compiles kernels with."""
    from torch_outboard.drivers import host  # which imports PyTorch

    return not host.describe().startswith("no kernels")


def clang_stages(*tests: str) -> list[Stage]:
    """Tests of kernels of the driver `host`, where this machine has a clang."""
    if not has_clang():
        return []
    return [replace(pytest_stage("clang", "not slow", tests), needs_kernels=True, clang=True)]


def scoreboard_stage(name: str, *options: str, driver: str = "host", clang: bool = False) -> Stage:
    """A part of the scoreboard, with its results in a folder of that name."""
    command = ("-m", "torch_outboard", "scoreboard", "--driver", driver, *options)
    folder = str(RESULTS / "scoreboard" / name)
    arguments = (*command, "--jobs", str(jobs()), "--output", folder)
    kernels = clang or driver == "ocl"
    return Stage(f"scoreboard-{name}", arguments, driver, needs_kernels=kernels, clang=clang)


def turn_stage(on_device: bool) -> Stage:
    """One sample of every operator: by device kernels, or by CPU's on separate memory."""
    # By itself each configuration has another sample.
    if on_device:
        options = ("--placement", "device", "--turn", f"ocl device {turns.turn()}")
        return scoreboard_stage("turn-ocl", *options, driver="ocl")
    return scoreboard_stage(
        "turn-separate", "--access", "separate", "--turn", turns.turn() or "none"
    )


def eager_stage(name: str, *options: str, driver: str = "host") -> Stage:
    """All suites but compiled ones; goes on where it was stopped."""
    return scoreboard_stage(name, *options, "--without", "compiled", "--resume", driver=driver)


def compiled_stage(driver: str, *options: str, clang: bool = False) -> Stage:
    """Entries compiled, with few samples: each is a graph or two."""
    name = f"compiled-{driver}{'-clang' if clang else ''}"
    options = ("--suite", "compiled", "--samples", "1", "--resume", *options)
    return scoreboard_stage(name, *options, driver=driver, clang=clang)


def wheel_stage(access: str) -> Stage:
    """The distributed tests that PyTorch brings."""
    arguments = ("-m", "tests.distributed.wheel_tests", "--driver", "host", "--access", access)
    return Stage(f"wheel-distributed-{access}", (*arguments, "--jobs", str(jobs()), "--resume"))


def jobs() -> int:
    """Processes of a stage; the Makefile passes MAX_JOBS on."""
    return min(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1), 8)


def default_stages() -> list[Stage]:
    return [
        pytest_stage("shared", "not slow", without=RUN_ELSEWHERE),
        marked_stage("separate"),
        marked_stage("faults"),
        kernels_stage("not slow"),
        on_ocl(pytest_stage("gpu", "not slow", GPU_FORMS)),
        *clang_stages(*CLANG_DRIVER, *CLANG_KERNELS),
        *(replace(turn_stage(on_device), beside=True) for on_device in (False, True)),
    ]


def full_stages() -> list[Stage]:
    stages = [
        pytest_stage("shared", None),
        pytest_stage("separate", None),
        pytest_stage("faults", "faults"),
        kernels_stage(None),
        kernels_stage("not slow", "gpu"),
        *clang_stages(*CLANG_DRIVER, "tests/device_kernels", "tests/inductor"),
        *(wheel_stage(access) for access in ("shared", "separate")),
    ]
    float32 = ("--dtype", "float32")
    return [
        *stages,
        *(eager_stage(access, "--access", access) for access in ("shared", "separate")),
        eager_stage("ocl", "--placement", "device", driver="ocl"),
        compiled_stage("ocl", "--placement", "device"),
        compiled_stage("host", *float32),
        *([compiled_stage("host", *float32, clang=True)] if has_clang() else []),
    ]


def changed_stages(base: str = "", paths: Sequence[str] = ()) -> list[Stage]:
    """The stages that a change of these paths can affect.

    By default those that changed since a commit, or are not committed, or changed in the last one.
    """
    if not paths:
        paths = changed.changed_paths(base or "HEAD") or changed.changed_paths(base or "HEAD~1")
    stages: list[Stage] = []
    for configuration, tests in sorted(changed.selection(paths).items()):
        found = sorted(f"tests/{test}" for test in tests if test != TURN)
        if configuration in changed.MARKS:
            stages.append(marked_stage(configuration, found))
            continue
        on_device = configuration in ("ocl", "gpu")
        files = [path for path in found if path.endswith(".py")]
        if folders := [path for path in found if path not in files]:
            stage = pytest_stage(configuration, "not slow", folders)
            stages.append(on_ocl(stage) if on_device else stage)
        if files:  # with all their cases
            stage = replace(pytest_stage(configuration, None, files), name=f"{configuration}-files")
            stages.append(on_ocl(stage) if on_device else stage)
        if TURN in tests:
            stages.append(turn_stage(on_device))
    return [replace(stage, may_be_empty=True) for stage in stages]


SUITES = {"default": default_stages, "full": full_stages, "changed": changed_stages}


def fail_fast(stage: Stage) -> Stage:
    """The same in its turn, ending at the first failure where pytest runs it."""
    more = ("-x",) if stage.again else ()
    return replace(stage, arguments=(*stage.arguments, *more), beside=False)


def environment_of(stage: Stage) -> dict[str, str]:
    """The caller's environment without settings of the kit, since a stage brings its own."""
    # pytest caches the tests that it has compiled, and every process of a test reads the package:
    # without these files a worker of `shared` takes 4 s longer to begin.
    left_out = ("OUTBOARD_", "PYTHONDONTWRITEBYTECODE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(left_out)},
        **({} if stage.clang or stage.driver != "host" else {"OUTBOARD_CLANG": "none"}),
        **({"OUTBOARD_PLACEMENT": "device"} if stage.clang else {}),
        "OUTBOARD_DRIVER": stage.driver,
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs())),
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONUNBUFFERED": "1",
    }


def missing(stage: Stage, environment: Mapping[str, str]) -> str:
    """Requirements of a stage that this machine lacks, as a sentence; "" if none."""
    if not stage.needs_kernels:
        return ""
    command = [sys.executable, "-m", "tests.kernels_run"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return "" if answer.returncode == 0 else (answer.stdout + answer.stderr).strip()


@dataclass(frozen=True)
class Outcome:
    code: int
    closing: str  # the line that pytest ends with; "" if there was none
    failures: tuple[str, ...] = ()  # what pytest says of each test that failed
    seconds: float = 0.0


def run(stage: Stage, show: Callable[[str], None] | None = None) -> Outcome:
    """Runs a stage, and returns what came of it.

    Args:
        show: gets its output, line by line; by default it is printed at once.
    """
    show = show or functools.partial(print, end="", flush=True)
    start = time.monotonic()
    environment = environment_of(stage)
    if lack := missing(stage, environment):
        show(f"The device of driver '{stage.driver}' runs no kernels, and this stage needs them:\n")
        show(f"{lack}\n")
        return Outcome(1, "not run: no device kernels")
    lower = ("nice", "-n", str(LOW_PRIORITY)) if stage.beside and shutil.which("nice") else ()
    process = subprocess.Popen(
        [*lower, sys.executable, *stage.arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    closing = ""
    failures: list[str] = []
    for line in process.stdout:
        show(line)
        closing = line.strip("= \n") if CLOSING.match(line) else closing
        if FAILURE.match(line):
            failures.append(line.rstrip()[:FAILURE_WIDTH])
    code = process.wait()
    if code == NO_TESTS_COLLECTED:  # it checks nothing
        code = 0 if stage.may_be_empty else 1
    return Outcome(code, closing, tuple(failures), time.monotonic() - start)


def run_aside(stage: Stage) -> tuple[Outcome, str]:
    """Runs a stage; its output comes in one piece at its end."""
    lines: list[str] = []
    return run(stage, lines.append), "".join(lines)


def run_again(stage: Stage, result: Outcome) -> str:
    """Runs the tests that failed alone, if they are few; what came of it, in words."""
    names = [match[1].split(" - ")[0] for line in result.failures if (match := FAILURE.match(line))]
    if not (stage.again and names) or len(names) > RUN_AGAIN:
        return ""
    print(f"\n==> {stage.name}: {len(names)} again", flush=True)
    outcome = run(replace(stage, arguments=(*stage.again, *names)))
    return f"; alone: {outcome.closing}"


def fingerprint() -> str:
    """Of what tests depend on: what passed on the same sources and binaries need not run again.

    Sources are those that git knows, changes included, and those that it does not ignore; binaries
    are PyTorch, Python, and what was built here.
    """
    commands = (
        ["git", "rev-parse", "HEAD"],
        ["git", "diff", "HEAD", "--binary"],
        ["git", "ls-files", "--others", "--exclude-standard", "-z"],
    )
    outputs = [subprocess.run(c, cwd=ROOT, capture_output=True).stdout for c in commands]
    untracked = [ROOT / os.fsdecode(name) for name in outputs[2].split(b"\0") if name]
    package = ROOT / "torch_outboard"
    built = [path for ending in ("so", "pyi") for path in package.rglob(f"*.{ending}")]
    digest = hashlib.sha256(b"\0".join(outputs))
    for path in sorted([*untracked, *built]):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    digest.update(f"{metadata.version('torch')} {sys.version}".encode())
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    for path in sorted((Path(spec.origin).parent / "lib").glob("*.so*")):
        state = path.stat()  # too large to be read
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Record:
    """The stages that passed, and on which sources."""

    def __init__(self, file: Path, resume: bool) -> None:
        self._file = file
        self._sources = fingerprint()
        self._passed = json.loads(file.read_text()) if resume and file.exists() else {}

    def has(self, stage: Stage) -> bool:
        return self._passed.get(stage.name) == self._sources

    def add(self, stage: Stage) -> None:
        self._passed[stage.name] = self._sources
        self._file.write_text(json.dumps(self._passed, indent=1))


def summary(rows: Sequence[tuple[str, str, str]], failed: Sequence[str]) -> int:
    """Prints what came of the stages; the exit status of the run."""
    print("\n==> summary")
    from torch_outboard.columns import print_columns  # loads PyTorch, so not before it is needed

    for line in failed[:FAILURES_SHOWN]:
        print(line)
    if len(failed) > FAILURES_SHOWN:
        print(f"and {len(failed) - FAILURES_SHOWN} more tests")
    print_columns(rows)
    total = sum(int(count) for row in rows for count in re.findall(r"(\d+) passed", row[2]))
    failures = sum(outcome != "passed" for _, outcome, _ in rows)
    if total:
        print(f"{total} passed in all stages, {failures} of {len(rows)} stages failed")
    return min(failures, 1)


def run_all(stages: Sequence[Stage], record: Record, stop_at_first: bool) -> int:
    """Runs stages in their order and prints a summary; the exit status of the run."""
    rows: list[tuple[str, str, str]] = []
    failed: list[str] = []
    with ThreadPoolExecutor(1) as executor:  # one after the other
        waiting = [stage for stage in stages if not record.has(stage)]
        aside = {s.name: executor.submit(run_aside, s) for s in waiting if s.beside}
        for number, stage in enumerate(stages, 1):
            print(f"\n==> {number}/{len(stages)} {stage.name}", flush=True)
            if stage not in waiting:
                print("passed before on the same sources")
                rows.append((stage.name, "passed", "before"))
                continue
            if stage.beside:
                outcome, output = aside[stage.name].result()
                print(output, end="")
            else:
                outcome = run(stage)
            verdict = "passed" if outcome.code == 0 else f"FAILED ({outcome.code})"
            rows.append((stage.name, verdict, outcome.closing or f"{outcome.seconds:.0f}s"))
            if outcome.code == 0:
                record.add(stage)
                continue
            again = "" if stop_at_first else run_again(stage, outcome)
            failed += [f"{stage.name}: {line}{again}" for line in outcome.failures]
            if stop_at_first:
                break
    return summary(rows, failed)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--stage", action="append", help="run only this stage; may be repeated")
    parser.add_argument("--base", default="", help="of `changed`: the commit that is compared with")
    parser.add_argument(
        "--path", action="append", help="of `changed`: as if this file had; may be repeated"
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--resume", action="store_true", help="skip stages that passed on the same sources"
    )
    options = parser.parse_args(argv)
    suite = SUITES[options.suite]
    if suite is changed_stages:
        stages = changed_stages(options.base, options.path or ())
    else:
        stages = suite()
    if options.fail_fast:
        stages = [fail_fast(stage) for stage in stages]
    if not stages:
        print("nothing that tests know has changed")
    if options.stage:
        known = {stage.name: stage for stage in stages}
        if unknown := set(options.stage) - set(known):
            parser.error(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        stages = [known[name] for name in options.stage]
    RESULTS.mkdir(exist_ok=True)
    record = Record(RESULTS / f"passed-{options.suite}.json", options.resume)
    return run_all(stages, record, options.fail_fast)


if __name__ == "__main__":
    sys.exit(main())
