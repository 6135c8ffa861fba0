"""The folder from which Inductor loads pickles, Python and libraries that it once wrote.

Its default is a name in the folder for temporary files that anybody can guess, and Inductor looks
at neither owner nor mode.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings

from torch_outboard import _C
from torch_outboard.ops import program_cache

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def avoid_folder_of_others() -> None:
    """Has Inductor use a temporary folder where others can write to the one that it would use.

    Called before Inductor reads anything. Warns if it did.
    """
    try:
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        folder = os.path.abspath(os.environ.get(VARIABLE) or default_cache_dir())
        # Made now, so that nobody else makes it.
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except (ImportError, OSError):
        return  # Inductor says what is wrong
    problem = _C.private_folder_problem(folder, program_cache.shared())
    if not problem:
        return
    private = tempfile.mkdtemp(prefix="torchinductor-")
    os.environ[VARIABLE] = private
    atexit.register(_remove, private, os.getpid())
    warnings.warn(
        f"compiled graphs are not kept, because Inductor loads code from its cache and {problem}; "
        f"let it be yours and writable by you alone (chmod go-w), or name another with {VARIABLE}",
        stacklevel=2,
    )


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
