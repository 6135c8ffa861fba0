"""Where compiled programs are kept."""

from __future__ import annotations

import os

from torch_outboard import _C

VARIABLE = "OUTBOARD_CACHE_DIR"


def folder() -> str:
    """The folder of compiled programs; "" if none are kept.

    `OUTBOARD_CACHE_DIR` names it, or is empty to keep nothing. Otherwise it lies in the user's
    cache folder, if there is one that can be written.
    """
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    import platformdirs

    return os.path.join(platformdirs.user_cache_dir("torch_outboard"), "programs")


def configure() -> None:
    """Tells the runtime; called at the first use of a device that can run code."""
    _C.set_disk_cache_folder(folder())
