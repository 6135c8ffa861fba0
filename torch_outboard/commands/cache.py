"""The command `cache`: what is kept on disk between runs, and how to get rid of it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from torch_outboard import _C
from torch_outboard.ops import program_cache
from torch_outboard.variables import (
    CACHE_FOLDER_VARIABLE,
    CACHE_LIMIT_VARIABLE,
    CACHE_SHARED_VARIABLE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--clear", action="store_true", help="remove the compiled kernels; they are compiled again"
    )
    parser.add_argument(
        "--clear-tuning", action="store_true", help="remove what `tune` measured as well"
    )


def run(options: argparse.Namespace) -> int:
    """Prints what is kept, after removing what was asked for; 1 if the folder cannot be used."""
    try:
        program_cache.check_settings()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    folder = program_cache.folder()
    if not folder:
        print(f"nothing is kept: {CACHE_FOLDER_VARIABLE} is empty")
        _print_pocl()
        return 0
    shared = program_cache.shared()
    print(f"folder    {folder}{'' if os.path.isdir(folder) else ' (not there yet)'}")
    if problem := _C.private_folder_problem(folder, shared):
        print(program_cache.remedy(problem), file=sys.stderr)
        _print_pocl()
        return 1
    failed = 0
    files = _C.list_private_folder(folder, shared)
    kinds = (
        ("kernels", [f for f in files if _C.is_disk_cache_file(f[0])], options.clear),
        ("tuning", [f for f in files if is_tuning_file(f[0])], options.clear_tuning),
    )
    for title, found, clear in kinds:
        if clear:
            kept = [f for f in found if not _C.remove_private_file(folder, f[0], shared)]
            failed += len(kept)
            gone = len(found) - len(kept)
            print(f"{title:<9} {_count(gone)}, {_bytes(_size(found) - _size(kept))} removed")
        else:
            print(f"{title:<9} {_count(len(found))}, {_bytes(_size(found))}")
    limit = program_cache.limit()
    print(f"limit     {_bytes(limit) if limit else 'none'} ({CACHE_LIMIT_VARIABLE})")
    if shared:
        print(f"trusted   everybody who can write to the folder ({CACHE_SHARED_VARIABLE})")
    _print_pocl()
    if failed:
        print(f"{_count(failed)} could not be removed", file=sys.stderr)
    return min(failed, 1)


def is_tuning_file(name: str) -> bool:
    """Whether a file of the folder is one of `tuning_file`, or was about to become one."""
    return name.startswith("ways-") and (name.endswith(".json") or ".json." in name)


def pocl_folder() -> Path:
    """Where PoCL keeps a cache of its own."""
    if named := os.environ.get("POCL_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "pocl", "kcache")


def _print_pocl() -> None:
    folder = pocl_folder()
    if folder.is_dir():
        size = 0
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    size += os.lstat(os.path.join(parent, name)).st_size
                except OSError:
                    continue  # gone meanwhile
        print(f"pocl      {folder}, {_bytes(size)}")
        print("          PoCL's own cache, which is not limited, checked or cleared from here;")
        print("          POCL_CACHE_DIR moves it, and it may be removed while nothing uses it")


def _size(files: list[tuple[str, int, float]]) -> int:
    return sum(size for _, size, _ in files)


def _count(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
