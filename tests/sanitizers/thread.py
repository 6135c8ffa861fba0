"""Runs threads that use the runtime and its allocators in random order under ThreadSanitizer.

    python -m tests.sanitizers.thread
    python -m tests.sanitizers.thread --seconds 60 --seed 7

`stress.cpp`, `csrc/runtime` and the driver `host` are compiled for it, in `build/sanitized/thread`;
Python takes no part. Exit status: 0, 1 if something was found, 2 if the build failed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from torch.utils import cpp_extension

from tests.compile_versions import ROOT, load_setup
from tests.sanitizers.native_build import THREAD, fail

HERE = Path(__file__).resolve().parent
STRESS = "tests/sanitizers/stress.cpp"
ACCESSES = ("shared", "separate")


def build() -> tuple[str, Path]:
    """The program and the driver."""
    THREAD.use_compilers()
    setup = load_setup()
    found = {e.name.rpartition(".")[2]: e for e in setup.native_extensions()}
    library, driver = found["libtorch_outboard"], found["libob_host"]
    runtime = [source for source in library.sources if source.startswith("csrc/runtime/")]
    print(f"==> building in {THREAD.folder}", flush=True)
    try:
        program = cpp_extension.load(
            "stress",
            [str(ROOT / source) for source in (*runtime, STRESS)],
            extra_cflags=library.extra_compile_args,
            extra_ldflags=["-ldl", "-lpthread"],
            extra_include_paths=library.include_dirs,
            build_directory=str(THREAD.folder),
            is_python_module=False,
            is_standalone=True,
        )
    except RuntimeError as error:
        fail(str(error))
    driver_library = THREAD.folder / "libob_host.so"
    try:
        setup.build_driver(driver, driver_library)
    except subprocess.CalledProcessError as error:
        fail(str(error))
    return program, driver_library


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="per kind of memory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    program, driver = build()
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
        command = [program, str(driver), str(options.seconds), str(options.seed)]
        limit = 20 * options.seconds + 120
        if subprocess.run(command, env=variables, check=False, timeout=limit).returncode != 0:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
