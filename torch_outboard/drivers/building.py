"""Builds the library of a driver, with the sources of this folder that it uses.

    python -m torch_outboard.drivers.building -o libob_mychip.so --with queues mychip.c -lmychip

`common` is in every driver: messages, settings, clock. `queues` are queues, events and transfers on
threads of the host; `memory` is device memory in that of the host, for drivers with `queues`;
`compiler` makes machine code of OpenCL C by a clang. Their headers, such as `queues.h`, say what a
driver defines and what it gets. The compilers are $CC and $CXX, by default `cc` and `c++`, and know
C11 and C++20. The drivers of torch_outboard are built by the same functions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PARTS = ("common", "queues", "memory", "compiler")
_FLAGS = ("-O2", "-g", "-fPIC", "-fvisibility=hidden")
_LIBRARIES = ("-ldl", "-lpthread")
_FOR_THE_LINKER = ("-l", "-L", "-Wl,")


def include_paths() -> list[str]:
    """Folders of headers: `<outboard/driver.h>`, and of parts, such as `<queues/queues.h>`."""
    return [str(FOLDER.parent / "include"), str(FOLDER)]


def sources(*parts: str) -> list[str]:
    """The C and C++ sources of parts; those of `common` are always among them.

    Raises:
        ValueError: if there is no such part.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ValueError(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    folders = sorted({"common", *parts})
    return [str(path) for part in folders for path in sorted((FOLDER / part).glob("*.c*"))]


def build(
    library: str | os.PathLike[str],
    files: Iterable[str | os.PathLike[str]],
    parts: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> None:
    """Compiles sources and links them to a shared library.

    Args:
        library: its path, such as `libob_mychip.so`. The folder exists.
        files: sources of the driver in C and C++.
        parts: what it uses beside `common`.
        include_dirs: further folders of headers, which are searched first.
        flags: of the compiler, for the parts, too; those of the linker begin with -l, -L or -Wl.

    Raises:
        subprocess.CalledProcessError: if a compiler or the linker fails.
        ValueError: if there is no such part.
    """
    all_sources = [*(os.fspath(file) for file in files), *sources(*parts)]
    with tempfile.TemporaryDirectory() as folder:
        link(library, compile_sources(all_sources, folder, include_dirs, flags), flags)


def compile_sources(
    files: Sequence[str],
    folder: str | os.PathLike[str],
    include_dirs: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> list[str]:
    """Compiles sources, several at once, to objects in a folder, whose paths it returns.

    The arguments and failures are those of `build`.
    """
    c = [*os.environ.get("CC", "cc").split(), "-std=c11"]
    cxx = [*os.environ.get("CXX", "c++").split(), "-std=c++20"]
    common = [*_FLAGS, *(flag for flag in flags if not flag.startswith(_FOR_THE_LINKER))]
    common += [f"-I{path}" for path in (*include_dirs, *include_paths())]
    targets = [str(Path(folder, f"{i}.o")) for i in range(len(files))]

    def compile_one(source: str, target: str) -> None:
        language = c if source.endswith(".c") else cxx
        subprocess.run([*language, *common, "-c", source, "-o", target], check=True)

    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, files, targets))  # raises what they raised
    return targets


def link(
    library: str | os.PathLike[str], objects: Sequence[str], flags: Sequence[str] = ()
) -> None:
    """Links objects of `compile_sources` to a shared library."""
    cxx = os.environ.get("CXX", "c++").split()
    chosen = [flag for flag in flags if flag.startswith(_FOR_THE_LINKER)]
    command = [*cxx, "-shared", *objects, "-o", os.fspath(library), *chosen, *_LIBRARIES]
    subprocess.run(command, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_outboard.drivers.building",
        description="Build the library of a driver.",
        epilog="Other options go to the compiler, those with -l, -L and -Wl to the linker.",
    )
    parser.add_argument("files", nargs="+", metavar="SOURCE", help="of the driver, in C or C++")
    parser.add_argument("-o", dest="library", required=True, metavar="LIBRARY")
    parser.add_argument(
        "--with", dest="parts", action="append", default=[], choices=PARTS[1:],
        help="sources of torch_outboard that the driver uses",
    )  # fmt: skip
    options, flags = parser.parse_known_args(arguments)
    try:
        build(options.library, options.files, options.parts, flags=flags)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{options.library} was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
