"""Compiles every C++ file against the headers of several versions of PyTorch and Python.

    python -m tests.compile_versions
    python -m tests.compile_versions --torch 2.11.0 --python 3.12 --interpreter ~/py/bin/python3.12

Headers are all that this needs: a wheel of PyTorch is downloaded for each version, `torch/include`
is cached and the rest deleted. The compiler only looks (-fsyntax-only), with the flags of
setup.py, once with the stubs of CPU kernels and once without. Nothing is linked or run.

For the first version each source is compiled alone, to see that it includes what it uses; for the
others as the build does it, several of a folder at once.

What passed is remembered in `build/versions` by what the preprocessor makes of it, so that a second
run, or another version whose headers for a file are the same, takes seconds.

Exit status: 0 if everything compiles, 1 if a file does not, 2 if a version could not be looked at.
"""

import argparse
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch.utils.cpp_extension import include_paths

from tests.version_headers import PLATFORM, Unavailable, python_headers, torch_headers
from torch_outboard.columns import print_columns

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
KERNELS = ROOT / "torch_outboard" / "kernels"
FOLDER = ROOT / "build" / "versions"
TORCH_VERSIONS = ("2.11.0", "2.12.0", "2.13.0", "2.14.0", "2.15.0")
PYTHON_VERSIONS = ("3.11", "3.12", "3.13")
ERRORS_SHOWN = 3


# ---- What is compiled, and how -----------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    path: str  # relative to the project
    flags: tuple[str, ...]
    include: tuple[Path, ...]
    stub_flags: tuple[str, ...]  # what a build with stubs adds


def load_setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("outboard_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project_sources() -> list[Source]:
    """Every C++ file that sees PyTorch's headers, with the flags that setup.py and PyTorch's
    BuildExtension give it."""
    setup = load_setup()
    setup.drop_compiler_cache()
    sources = []
    for extension in setup.native_extensions():
        name = extension.name.rpartition(".")[2]
        added = ["-fPIC", "-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={name}"]
        added += [f for f in sysconfig.get_config_var("CFLAGS").split() if f.startswith("-D")]
        probed = [*setup.cpu_stub_candidates()[0], *setup.KINETO_FLAGS]
        stubs = probed if extension.name == setup.LIBRARY else []
        own = (Path(p) for p in extension.include_dirs)
        include = tuple(p for p in own if p.is_relative_to(CSRC) or p in (ROOT, KERNELS))
        flags = tuple(extension.extra_compile_args + added)
        for path in extension.sources:
            # Drivers are C++ without PyTorch.
            if path.endswith(".cpp") and (ROOT / path).is_relative_to(CSRC):
                sources.append(Source(path, flags, include, tuple(stubs)))
    left_out = {str(p.relative_to(ROOT)) for p in CSRC.rglob("*.cpp")} - {s.path for s in sources}
    assert not left_out, f"setup.py does not build {', '.join(sorted(left_out))}"
    return sources


def units_of(sources: Sequence[Source], folder: Path) -> list[Source]:
    """The files that setup.py compiles for these sources, written below `folder`."""
    setup = load_setup()
    units = []
    for flags in dict.fromkeys(source.flags for source in sources):
        alike = [source for source in sources if source.flags == flags]
        for path in setup.compilation_units([source.path for source in alike], folder):
            units.append(dataclasses.replace(alike[0], path=str(Path(path).relative_to(ROOT))))
    return units


@dataclass(frozen=True)
class Target:
    """Headers that sources are compiled against."""

    torch: str
    python: str
    stubs: bool
    torch_folder: Path
    python_folder: Path

    def __str__(self) -> str:
        stubs = "with" if self.stubs else "without"
        return f"torch {self.torch}, Python {self.python}, {stubs} stubs"

    def include(self) -> list[Path]:
        installed = Path(torch.__file__).parent.parent
        headers = [self.torch_folder / Path(p).relative_to(installed) for p in include_paths()]
        return [*headers, headers[0] / "kineto", self.python_folder]

    def flags(self, source: Source) -> list[str]:
        stubs = source.stub_flags if self.stubs else ()
        folders = [f"-I{path}" for path in (*source.include, *self.include())]
        return [*source.flags, *stubs, *folders]


# ---- Compiling ---------------------------------------------------------------------------------


@functools.cache
def compiler() -> tuple[tuple[str, ...], str]:
    """The command of the C++ compiler, and what it says about its version and processor."""
    command = tuple(shlex.split(os.environ.get("CXX", "c++")))
    if shutil.which(command[0]) is None:
        raise SystemExit(f"the C++ compiler {command[0]!r} is not there; install g++ 12 or newer")
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return command, version.stdout + platform.machine()


@dataclass
class Outcome:
    source: Source
    ok: bool
    same: bool = False  # whether it compiled before from the same contents
    seconds: float = 0.0
    errors: Sequence[str] = ()


def compile_source(source: Source, target: Target, passed: Path) -> Outcome:
    """Compiles what the preprocessor makes of a source, unless `passed` has a file for that.

    What passes leaves one there.
    """
    start = time.monotonic()

    def run(*options: str, read: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [*compiler()[0], *target.flags(source), *options]
        return subprocess.run(
            command, cwd=ROOT, input=read, capture_output=True, text=True, check=False
        )

    result = run("-E", source.path)
    contents = re.sub("^# .*", "", result.stdout, flags=re.MULTILINE)  # where lines come from
    for folder in (target.torch_folder, target.python_folder):  # as __FILE__ has them
        contents = contents.replace(str(folder), "")
    flags = [flag for flag in source.flags if not flag.startswith("-D")]
    state = json.dumps([compiler()[1], flags, contents])
    record = passed / hashlib.sha256(state.encode()).hexdigest()
    if result.returncode == 0:
        if record.exists():
            return Outcome(source, ok=True, same=True)
        result = run("-fsyntax-only", "-x", "c++-cpp-output", "-", read=result.stdout)
    ok = result.returncode == 0
    if ok:
        passed.mkdir(parents=True, exist_ok=True)
        record.touch()
    errors = [line for line in result.stderr.splitlines() if "error: " in line]
    if not ok and not errors:
        errors = result.stderr.splitlines()[-1:] or [f"exit status {result.returncode}"]
    return Outcome(source, ok, False, time.monotonic() - start, errors)


@dataclass
class Row:
    target: Target
    ok: int = 0
    same: int = 0  # of those, how many compiled before from the same contents
    failed: int = 0


def check_target(
    target: Target, sources: Sequence[Source], passed: Path, jobs: int
) -> tuple[Row, list[Outcome]]:
    """Compiles all sources for one target, and returns how many passed and what failed."""
    print(f"\n==> {target}", flush=True)
    row = Row(target)
    failures = []
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(compile_source, source, target, passed) for source in sources]
        for number, future in enumerate(as_completed(running), 1):
            outcome = future.result()
            row.same += outcome.same
            if not outcome.same:
                verdict = f"{'ok' if outcome.ok else 'FAILED'} {outcome.seconds:.0f} s"
                print(f"    [{number}/{len(sources)}] {outcome.source.path} {verdict}", flush=True)
            if outcome.ok:
                row.ok += 1
                continue
            row.failed += 1
            failures.append(outcome)
            for line in outcome.errors[:ERRORS_SHOWN]:
                print(f"        {line}")
    if row.same:
        print(f"    files compiled before from the same contents: {row.same}")
    return row, failures


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compile_versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--torch", nargs="+", default=TORCH_VERSIONS, metavar="VERSION")
    parser.add_argument("--python", nargs="+", default=PYTHON_VERSIONS, metavar="VERSION")
    parser.add_argument(
        "--interpreter", nargs="+", default=(), help="Pythons to ask for their headers"
    )
    parser.add_argument("--platform", default=PLATFORM, help="of the wheels (default %(default)s)")
    parser.add_argument("--stubs", choices=("with", "without", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--filter", default="", help="only sources whose path holds this")
    parser.add_argument(
        "--allow-missing", action="store_true", help="a version that is not to be had is no error"
    )
    options = parser.parse_args(argv)
    sources = [s for s in project_sources() if options.filter in s.path]
    if not sources:
        parser.error(f"no source holds {options.filter!r} in its path")
    variants = {"with": (True,), "without": (False,), "both": (True, False)}[options.stubs]

    passed = FOLDER / "passed"
    rows: list[Row] = []
    failures: list[tuple[Target, Outcome]] = []
    missing: list[str] = []
    for python in options.python:
        for version in options.torch:
            try:
                python_folder = python_headers(python, options.interpreter)
                torch_folder = torch_headers(FOLDER, version, python, options.platform)
            except Unavailable as reason:
                missing.append(f"torch {version}, Python {python}: {reason}")
                continue
            for stubs in variants:
                target = Target(version, python, stubs, torch_folder, python_folder)
                looked_at = units_of(sources, FOLDER / "units") if rows else sources
                row, failed = check_target(target, looked_at, passed, options.jobs)
                rows.append(row)
                failures += [(target, outcome) for outcome in failed]
    report(rows, failures, missing)
    if failures:
        return 1
    return 2 if missing and not (options.allow_missing and rows) else 0


def report(
    rows: Iterable[Row], failures: Iterable[tuple[Target, Outcome]], missing: Iterable[str]
) -> None:
    cells = [("torch", "Python", "CPU stubs", "compiled", "failed")]
    for row in rows:
        target = row.target
        stubs = "with" if target.stubs else "without"
        cells.append((target.torch, target.python, stubs, str(row.ok), str(row.failed)))
    print()
    print_columns(cells, right=(3, 4))
    for reason in missing:
        print(f"not looked at: {reason}")
    for target, outcome in failures:
        print(f"\n{outcome.source.path} ({target}), {len(outcome.errors)} errors")
        for line in outcome.errors[:ERRORS_SHOWN]:
            print(f"    {line}")


if __name__ == "__main__":
    sys.exit(main())
