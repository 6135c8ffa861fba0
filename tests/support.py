"""Helpers of all tests."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.forked_python import run_forked

# How many times as long as usual processes may take: sanitizers are slow.
SLOWNESS = float(os.environ.get("TEST_SLOWNESS", "1"))

ROOT = Path(__file__).resolve().parent.parent

T = TypeVar("T")


def environment_without(*prefixes: str) -> dict[str, str]:
    """This process's environment without variables whose names have one of the prefixes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def run_pytest(
    *arguments: str | Path, without: tuple[str, ...], timeout: float = 280, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs pytest in a separate process.

    Args:
        arguments: its command line.
        without: prefixes of environment variables that the process does not inherit.
        timeout: seconds, times `SLOWNESS`.
        settings: environment variables to set.
    """
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=environment_without(*without) | settings,
        capture_output=True,
        text=True,
        timeout=timeout * SLOWNESS,
    )


def run_python(
    code: str, *arguments: str, timeout: float = 120, fresh: bool = False, **env: str | None
) -> str:
    """Runs code in a Python of its own and returns what it printed.

    Args:
        code: the program, indented or not.
        arguments: `sys.argv[1:]`.
        timeout: seconds, times `SLOWNESS`.
        fresh: whether Python starts for it and the program itself imports PyTorch first; otherwise
            the process may fork from one that has (forked_python.py), which takes much less time.
        env: environment variables to set on top of this process's; None removes one.

    Raises:
        AssertionError: if it exits with another status than 0, with its output.
    """
    result = try_python(code, *arguments, timeout=timeout, fresh=fresh, **env)
    assert result.returncode == 0, (
        f"exit status {result.returncode}\n--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
    )
    return result.stdout


def try_python(
    code: str, *arguments: str, timeout: float = 120, fresh: bool = False, **env: str | None
) -> subprocess.CompletedProcess[str]:
    """Like `run_python`, but returns whatever happened."""
    environment = dict(os.environ)
    for name, value in env.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    code, timeout = textwrap.dedent(code), timeout * SLOWNESS
    # Sanitizers look for memory that was never freed, and threads that were never joined.
    if not fresh and SLOWNESS == 1:
        result = run_forked(code, arguments, timeout, environment)
        if result is not None:
            return result
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """Results of `work` for each number below `count`, at once in as many threads.

    Raises:
        Exception: what the first of them raised.
    """
    together = threading.Barrier(count)

    def begin(number: int) -> T:
        together.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


@cache
def kernels_run_on(driver: str) -> bool:
    """Whether the first device of a driver runs kernels on this machine."""
    command = [sys.executable, "-m", "tests.kernels_run"]
    environment = {**os.environ, "OUTBOARD_DRIVER": driver}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode == 0


def compile_library(source: Path, output: Path) -> None:
    """Compiles a vendor's C++ file against the installed package, as its documentation says."""
    import torch
    from torch.utils import cpp_extension

    import torch_outboard

    library = Path(torch_outboard.library_path())
    includes = [*torch_outboard.include_paths(), *cpp_extension.include_paths()]
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(source), "-o", str(output)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    command += [f"-I{path}" for path in includes]
    command += [str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, check=True, timeout=280)
