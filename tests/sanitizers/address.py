"""Runs tests on native parts that AddressSanitizer and UndefinedBehaviorSanitizer watch.

    python -m tests.sanitizers.address                      # runtime, operators and drivers
    python -m tests.sanitizers.address tests/aten -k copy   # arguments of pytest

The build lies in `build/sanitized/address`; the installed one stays as it is. PyTorch and Python
are watched only where they call the system's allocator. Exit status: that of pytest, or 1 if a
sanitizer found something in any process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.compile_versions import ROOT
from tests.sanitizers.native_build import ADDRESS, BuildError, build_package, default_jobs, fail

TESTS = ["tests/runtime", "tests/aten", "tests/drivers"]
FINDINGS = ADDRESS.folder / "findings"


def environment(package: Path) -> dict[str, str]:
    # Python, PyTorch and PoCL keep memory until the process ends, and tests ask for more than there
    # is. Some tests expect a process to die of a signal when it touches forbidden memory; any other
    # that does fails its test without a finding.
    options = "detect_leaks=0:allocator_may_return_null=1:handle_segv=0:handle_sigbus=0"
    options += f":log_path={FINDINGS}/address"
    return {
        **os.environ,
        "PYTHONPATH": str(package),
        "LD_PRELOAD": ADDRESS.preload(),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={FINDINGS}/undefined",
        # Objects of Python come from the system's allocator, too.
        "PYTHONMALLOC": "malloc",
        "TEST_SLOWNESS": "8",
    }


def is_finding(text: str) -> bool:
    """Whether a log says more than that an allocation was refused."""
    return "ERROR: " in text or "runtime error: " in text or "CHECK failed" in text


def lay_out_tests(folder: Path) -> None:
    """Copies the tests beside the package: pytest puts the folder they lie in on Python's path."""
    for name in ("tests", "examples", "csrc"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", folder)


def main(arguments: Sequence[str]) -> int:
    try:
        package = build_package(ADDRESS, default_jobs())
        variables = environment(package)
    except BuildError as error:
        return fail(error)
    lay_out_tests(package)
    shutil.rmtree(FINDINGS, ignore_errors=True)
    FINDINGS.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-o", "timeout=1200", "-m", "not slow", "-n", str(default_jobs())]
    command += arguments or TESTS
    status = subprocess.run(command, cwd=package, env=variables, check=False).returncode
    findings = {
        path: text
        for path in sorted(FINDINGS.iterdir())
        if is_finding(text := path.read_text(errors="replace"))
    }
    for path, text in findings.items():
        print(f"\n--- {path.relative_to(ROOT)}\n{text}")
    if findings:
        print(f"The sanitizers found something in {len(findings)} processes: see above.")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
