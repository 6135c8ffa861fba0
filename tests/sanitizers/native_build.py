"""Builds the native parts apart from the installed ones, with a sanitizer of the compiler."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.version_tree import ROOT, project_files, renew

FOLDER = ROOT / "build" / "sanitized"
# Fast enough to test with, and with lines in the reports.
COMMON_FLAGS = ("-O1", "-g1", "-fno-omit-frame-pointer")


@dataclass(frozen=True)
class Sanitizer:
    """A sanitizer of GCC.

    Args:
        name: also of its folder below `build/sanitized`. What was built there is not built again
            after a change of the flags.
        flags: of the compiler and the linker.
        library: the run-time library.
    """

    name: str
    flags: tuple[str, ...]
    library: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    def preload(self) -> str:
        """The value of LD_PRELOAD for a program that was built without the sanitizer."""
        # The sanitizer looks for what throws exceptions when it starts.
        return " ".join(library_path(name) for name in (self.library, "libstdc++.so.6"))

    def use_compilers(self) -> None:
        """Makes CC and CXX scripts that add the flags at the end, where they hold."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for variable, usual in (("CC", "cc"), ("CXX", "c++")):
            script = self.folder / usual
            flags = shlex.join([*COMMON_FLAGS, *self.flags])
            script.write_text(f'#!/bin/sh\nexec {os.environ.get(variable, usual)} "$@" {flags}\n')
            script.chmod(0o755)
            os.environ[variable] = str(script)
        # Where `ninja` is.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


ADDRESS = Sanitizer(
    "address",
    # Classes of PyTorch have no type information that is visible here.
    ("-fsanitize=address,undefined", "-fno-sanitize=vptr"),
    "libasan.so",
)
THREAD = Sanitizer("thread", ("-fsanitize=thread",), "libtsan.so")


def fail(reason: str) -> NoReturn:
    print(f"The build with a sanitizer failed: {reason}", file=sys.stderr)
    raise SystemExit(2)


def call(command: Sequence[object], folder: Path = ROOT) -> None:
    """Runs a build, which says itself what it refuses."""
    words = [str(word) for word in command]
    # It imports PyTorch, which would load what an earlier build left.
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    if subprocess.run(words, cwd=folder, env=environment, check=False).returncode != 0:
        fail(shlex.join(words))


def library_path(name: str) -> str:
    """Where the compiler has a library."""
    command = [*shlex.split(os.environ.get("CC", "cc")), f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        fail(f"'{shlex.join(command)}' finds none: install the sanitizers of GCC")
    return os.path.realpath(path)


def build_package(sanitizer: Sanitizer) -> Path:
    """Builds all native parts in a copy of the project; returns the copy."""
    sanitizer.use_compilers()
    tree = sanitizer.folder / "tree"
    renew(project_files(ROOT), ROOT, tree)
    call([sys.executable, "setup.py", "build_ext", "--inplace"], tree)
    return tree
