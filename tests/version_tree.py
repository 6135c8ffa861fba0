"""A copy of the project to build and test in, apart from the work tree and its `.venv`.

    python -m tests.version_tree build/torch-2.15.0-python3.11

The libraries of an editable install lie between the sources, so one tree serves one PyTorch. The
copy holds what git tracks, and what it neither tracks nor ignores. A second call renews what has
changed and removes what is gone; what was built in the copy stays.
"""

import filecmp
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ".files"


def project_files(root: Path) -> list[str]:
    """The files of a work tree that git tracks or would track, relative to it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in output.split("\0") if name and (root / name).is_file()})


def renew(files: Iterable[str], source: Path, target: Path) -> None:
    """Makes `target` hold these files of `source`; what holds the same already is left alone.

    What is written gets the present time: a source that was edited while an older state was being
    built is newer than that build.

    Args:
        files: relative to both folders.
        source: where they lie.
        target: made if it does not exist. What an earlier call put there, and this one does not,
            is removed.
    """
    files = list(files)
    listing = target / LIST
    before = listing.read_text().splitlines() if listing.exists() else []
    for name in set(before) - set(files):
        (target / name).unlink(missing_ok=True)
    for name in files:
        copy = target / name
        if copy.exists() and filecmp.cmp(source / name, copy, shallow=False):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, copy)
    listing.write_text("".join(f"{name}{os.linesep}" for name in files))


if __name__ == "__main__":
    renew(project_files(ROOT), ROOT, Path(sys.argv[1]))
