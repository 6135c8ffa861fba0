"""The command `cache`: shows and clears the caches on disk.

python -m torch_outboard cache
python -m torch_outboard cache --clear
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator

from torch_outboard import _C
from torch_outboard.columns import readable_bytes
from torch_outboard.ops import program_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--clear", action="store_true", help="remove the compiled kernels; they are compiled again"
    )


def run(options: argparse.Namespace) -> int:
    """Clears the chosen caches and prints the rest; 1 if the folder cannot be used."""
    try:
        limit, shared = program_cache.limit(), program_cache.shared()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    folder = program_cache.folder()
    if not folder:
        print("kernels are not cached on disk: OUTBOARD_CACHE_DIR is empty")
        return _pocl(folder, clear=False)
    print(f"folder    {folder}{'' if os.path.isdir(folder) else ' (does not exist yet)'}")
    if problem := _C.private_folder_problem(folder, shared):
        print(program_cache.remedy(problem), file=sys.stderr)
        return 1
    failed = 0
    files = _C.list_private_folder(folder, shared)
    found = [f for f in files if _C.is_disk_cache_file(f[0])]
    if options.clear:
        kept = [f for f in found if not _C.remove_private_file(folder, f[0], shared)]
        failed = len(kept)
        gone = len(found) - len(kept)
        print(f"kernels   {_count(gone)}, {_bytes(_size(found) - _size(kept))} removed")
    else:
        print(f"kernels   {_count(len(found))}, {_bytes(_size(found))}")
    failed_folders = _pocl(folder, options.clear)
    print(f"limit     {_bytes(limit) if limit else 'none'} (OUTBOARD_CACHE_LIMIT)")
    if shared:
        print("trusted   everybody who can write to the folder (OUTBOARD_CACHE_SHARED)")
    if failed:
        print(f"{_count(failed)} could not be removed", file=sys.stderr)
    return min(failed + failed_folders, 1)


def pocl_folder(folder: str) -> str:
    """The folder of PoCL's kernel cache; "" if PoCL deletes it at exit."""
    return os.environ.get("POCL_CACHE_DIR") or (os.path.join(folder, "pocl") if folder else "")


def _pocl(folder: str, clear: bool) -> int:
    """Prints or clears PoCL's kernel cache; 1 if it cannot be cleared."""
    pocl = pocl_folder(folder)
    if not os.path.isdir(pocl):
        return 0
    files, size = _measure(pocl)
    if "POCL_CACHE_DIR" in os.environ:
        print(f"pocl      {_count(files)}, {_bytes(size)} in {pocl}")
        print("          POCL_CACHE_DIR names it, so it is neither limited nor cleared from here")
        return 0
    if not clear:
        print(f"pocl      {_count(files)}, {_bytes(size)}")
        return 0
    try:
        with _alone(pocl):
            for name in os.listdir(pocl):
                path = os.path.join(pocl, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    except BlockingIOError:
        print(f"{pocl} is in use by a process; clear it when that has ended", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{pocl} cannot be cleared: {error}", file=sys.stderr)
        return 1
    print(f"pocl      {_count(files)}, {_bytes(size)} removed")
    return 0


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Holds exclusively the lock that processes with PoCL share (ocl/pocl/cache.cpp)."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _measure(folder: str) -> tuple[int, int]:
    count = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # the file was deleted meanwhile
            count += 1
    return count, size


def _size(files: list[tuple[str, int, float]]) -> int:
    return sum(size for _, size, _ in files)


def _count(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def _bytes(count: int) -> str:
    return readable_bytes(count, "bytes")
