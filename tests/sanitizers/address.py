"""Runs tests on native parts that AddressSanitizer and UndefinedBehaviorSanitizer watch.

    python -m tests.sanitizers.address                      # runtime, operators and drivers
    python -m tests.sanitizers.address tests/transfer -k copy   # arguments of pytest

The build lies in `build/sanitized/address`; the installed one stays as it is. PyTorch and Python
are watched only where they call the system's allocator. Exit status: that of pytest, or 1 if a
sanitizer found something in any process.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.sanitizers.native_build import ADDRESS, ROOT, build_package, call, fail

FOLDERS = "runtime tensors transfer cpu_kernels random dispatch autograd decompositions drivers"
TESTS = [f"tests/{name}" for name in FOLDERS.split()]
# Freed memory stays with the process for a while, so that uses of it are found.
DESELECTED = "tests/drivers/test_driver_memory.py::test_freed_memory_goes_back_to_the_system[ocl"
HERE = Path(__file__).resolve().parent
FINDINGS = ADDRESS.folder / "findings"
REPORTS = ADDRESS.folder / "libundefined_reports.so"
KNOWN_FAULTS = ADDRESS.folder / "libknown_faults.so"

COMMIT_KNOWN_FAULTS = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.overflow(1)
library.read_beyond_the_end(8)
"""


def build_reports() -> None:
    """Builds what the run needs besides the package."""
    # Libraries preloaded into every process are not sanitized.
    for target, compiler in ((REPORTS, "cc"), (KNOWN_FAULTS, os.environ["CC"])):
        source = HERE / f"{target.stem.removeprefix('lib')}.c"
        call([compiler, "-std=gnu11", "-shared", "-fPIC", source, "-o", target, "-ldl"])


def environment(package: Path) -> dict[str, str]:
    # Python, PyTorch and PoCL keep memory until the process ends, and tests ask for more than there
    # is. Some tests expect a process to die of a signal when it touches forbidden memory; any other
    # that does fails its test without a finding.
    options = "detect_leaks=0:allocator_may_return_null=1:handle_segv=0:handle_sigbus=0"
    options += f":log_path={FINDINGS}/address"
    return {
        **os.environ,
        "PYTHONPATH": str(package),
        "LD_PRELOAD": f"{ADDRESS.preload()} {REPORTS}",
        "ASAN_OPTIONS": options,
        # Its log_path would be that of AddressSanitizer: see undefined_reports.c.
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={FINDINGS}/address",
        "UNDEFINED_REPORTS": f"{FINDINGS}/undefined",
        # Objects of Python come from the system's allocator, too.
        "PYTHONMALLOC": "malloc",
        "TEST_SLOWNESS": "8",
    }


def is_finding(text: str) -> bool:
    """Whether a log says more than that an allocation was refused."""
    return "ERROR: " in text or "runtime error: " in text or "CHECK failed" in text


def findings() -> dict[Path, str]:
    """The logs that say what was found."""
    logs = {path: path.read_text(errors="replace") for path in sorted(FINDINGS.iterdir())}
    return {path: text for path, text in logs.items() if is_finding(text)}


def empty_findings() -> None:
    shutil.rmtree(FINDINGS, ignore_errors=True)
    FINDINGS.mkdir(parents=True)


def check_reports(variables: dict[str, str]) -> None:
    """Checks that what the sanitizers find arrives in the logs."""
    empty_findings()
    command = [sys.executable, "-c", COMMIT_KNOWN_FAULTS, str(KNOWN_FAULTS)]
    subprocess.run(command, env=variables, check=False)
    found = "".join(findings().values())
    for words in ("signed integer overflow", "heap-buffer-overflow"):
        if words not in found:
            fail(f"no log of the sanitizers reports a {words}: {found or 'nothing'}")
    empty_findings()


def main(arguments: Sequence[str]) -> int:
    package = build_package(ADDRESS)
    build_reports()
    variables = environment(package)
    check_reports(variables)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-o", "timeout=1200", "-m", "not slow", "-n", os.environ.get("MAX_JOBS") or "auto"]
    command += [f"--deselect={DESELECTED}"]
    command += arguments or TESTS
    status = subprocess.run(command, cwd=package, env=variables, check=False).returncode
    found = findings()
    for path, text in found.items():
        print(f"\n--- {path.relative_to(ROOT)}\n{text}")
    if found:
        print(f"The sanitizers found something in {len(found)} processes: see above.")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
