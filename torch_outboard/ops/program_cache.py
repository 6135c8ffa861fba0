"""Settings of the disk cache of compiled programs: folder, size limit, shared access."""

import os
import warnings
from typing import cast

from torch_outboard import _C, settings

DEFAULT_LIMIT = 2 << 30


def folder() -> str:
    """The folder of compiled programs; "" if none are cached.

    `OUTBOARD_CACHE_DIR` names it, or is empty to cache nothing. If the variable is not set, the
    folder is in the user's cache folder.
    """
    if "OUTBOARD_CACHE_DIR" in os.environ:
        return os.environ["OUTBOARD_CACHE_DIR"]
    import platformdirs

    return os.path.join(platformdirs.user_cache_dir("torch_outboard"), "programs")


def limit() -> int:
    """The largest size of the cached programs on disk, in bytes; 0 for no limit.

    Raises:
        ValueError: if `OUTBOARD_CACHE_LIMIT` is no number.
    """
    value = settings.read("OUTBOARD_CACHE_LIMIT")
    return DEFAULT_LIMIT if value is None else cast("int", value)


def shared() -> bool:
    """Whether a folder that other users can write to is accepted.

    Raises:
        ValueError: if `OUTBOARD_CACHE_SHARED` is neither 0 nor 1.
    """
    return bool(settings.read("OUTBOARD_CACHE_SHARED"))


def remedy(problem: str) -> str:
    """A message about a rejected folder: the problem, and how to solve it."""
    return (
        f"compiled kernels and measurements are not cached, because {problem}; make it yours "
        f"and writable by you alone (chmod go-w), name another with OUTBOARD_CACHE_DIR, or "
        f"set OUTBOARD_CACHE_SHARED=1 if you trust everybody who can write there with machine "
        "code"
    )


def configure() -> None:
    """Configures the runtime; called at the first use of a device that can run code.

    Warns if the runtime rejects the folder, as when other users can write to it.
    """
    if problem := _C.configure_disk_cache(folder(), limit(), shared()):
        warnings.warn(remedy(problem), stacklevel=2)
