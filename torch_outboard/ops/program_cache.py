"""Where compiled programs are kept, how many, and who is trusted with them."""

from __future__ import annotations

import os
import warnings
from typing import cast

from torch_outboard import _C, settings
from torch_outboard.variables import (
    CACHE_FOLDER_VARIABLE,
    CACHE_LIMIT_VARIABLE,
    CACHE_SHARED_VARIABLE,
)

DEFAULT_LIMIT = 2 << 30


def folder() -> str:
    """The folder of compiled programs; "" if none are kept.

    `OUTBOARD_CACHE_DIR` names it, or is empty to keep nothing. Otherwise it lies in the user's
    cache folder, if there is one that can be written.
    """
    if CACHE_FOLDER_VARIABLE in os.environ:
        return os.environ[CACHE_FOLDER_VARIABLE]
    import platformdirs

    return os.path.join(platformdirs.user_cache_dir("torch_outboard"), "programs")


def limit() -> int:
    """Bytes that the compiled programs may have on disk; 0 for no limit.

    Raises:
        ValueError: if `OUTBOARD_CACHE_LIMIT` is no number.
    """
    value = settings.read(CACHE_LIMIT_VARIABLE)
    return DEFAULT_LIMIT if value is None else cast("int", value)


def shared() -> bool:
    """Whether others who can write to the folder are trusted.

    Raises:
        ValueError: if `OUTBOARD_CACHE_SHARED` is neither 0 nor 1.
    """
    return settings.read(CACHE_SHARED_VARIABLE) == 1


def remedy(problem: str) -> str:
    """A sentence about a folder that is refused, and what to do."""
    return (
        f"compiled kernels and what was measured are not kept, because {problem}; let it be yours "
        f"and writable by you alone (chmod go-w), name another with {CACHE_FOLDER_VARIABLE}, or "
        f"set {CACHE_SHARED_VARIABLE}=1 if you trust everybody who can write there with machine "
        "code"
    )


def configure() -> None:
    """Tells the runtime; called at the first use of a device that can run code.

    Warns if the folder is one that others can write to.
    """
    if problem := _C.configure_disk_cache(folder(), limit(), shared()):
        warnings.warn(remedy(problem), stacklevel=2)
