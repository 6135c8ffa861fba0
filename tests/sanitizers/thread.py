"""Runs threads that use the runtime and its allocators in random order under ThreadSanitizer.

    python -m tests.sanitizers.thread
    python -m tests.sanitizers.thread --seconds 60 --seed 7

`stress.cpp`, `csrc/runtime` and the driver `host` are compiled for it, in `build/sanitized/thread`;
Python takes no part. Exit status: 0, 1 if something was found, 2 if the build failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.sanitizers.native_build import (
    THREAD,
    BuildError,
    build_driver,
    compile_sources,
    default_jobs,
    extensions,
    fail,
    link,
    torch_flags,
    torch_link_flags,
)

HERE = Path(__file__).resolve().parent
STRESS = "tests/sanitizers/stress.cpp"
ACCESSES = ("shared", "separate")


def build(jobs: int) -> tuple[Path, Path]:
    """The program and the driver.

    Raises:
        BuildError: with what the compiler or the linker said.
    """
    found, _ = extensions()
    library = found["libtorch_outboard"]
    sources = [s for s in library.sources if s.startswith("csrc/runtime/")]
    flags = torch_flags(library, THREAD)
    objects = compile_sources([*sources, STRESS], "c++", flags, THREAD.folder / "objects", jobs)
    program = THREAD.folder / "stress"
    link(objects, program, "c++", torch_link_flags(THREAD), shared=False)
    driver = THREAD.folder / "libob_host.so"
    build_driver(found["libob_host"], THREAD, driver, jobs)
    return program, driver


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="per kind of memory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        program, driver = build(default_jobs())
    except BuildError as error:
        return fail(error)
    status = 0
    for access in ACCESSES:
        print(f"==> {access} memory, {options.seconds:g} s, seed {options.seed}", flush=True)
        variables = {
            **os.environ,
            "OUTBOARD_HOST_ACCESS": access,
            # Small, so that the stress reaches it.
            "OUTBOARD_WORK_IN_FLIGHT": "64",
            "TSAN_OPTIONS": f"suppressions={HERE}/thread_suppressions.txt:second_deadlock_stack=1",
        }
        command = [str(program), str(driver), str(options.seconds), str(options.seed)]
        limit = 20 * options.seconds + 120
        if subprocess.run(command, env=variables, check=False, timeout=limit).returncode != 0:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
