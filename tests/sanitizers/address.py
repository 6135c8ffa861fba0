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
    # Python, PyTorch and PoCL keep memory until the process ends. PyTorch allocates 0 bytes, and
    # asks for more than there is to see whether it gets it.
    options = f"detect_leaks=0:allocator_may_return_null=1:log_path={FINDINGS}/address"
    return {
        **os.environ,
        "PYTHONPATH": str(package),
        "LD_PRELOAD": ADDRESS.preload(),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={FINDINGS}/undefined",
        # Objects of Python come from the system's allocator, too.
        "PYTHONMALLOC": "malloc",
    }


def lay_out_tests(folder: Path) -> None:
    """Copies the tests beside the package: pytest puts the folder they lie in on Python's path."""
    for name in ("tests", "examples", "csrc"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=skip, dirs_exist_ok=True)
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
    command += ["-o", "timeout=1200", "-m", "not slow"]
    command += arguments or TESTS
    status = subprocess.run(command, cwd=package, env=variables, check=False).returncode
    findings = sorted(FINDINGS.iterdir())
    for path in findings:
        print(f"\n--- {path.relative_to(ROOT)}\n{path.read_text(errors='replace')}")
    if findings:
        print(f"The sanitizers found something in {len(findings)} processes: see above.")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
