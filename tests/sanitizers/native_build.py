"""Builds the native parts apart from the installed ones, with a sanitizer of the compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from setuptools import Extension
from torch.utils.cpp_extension import include_paths, library_paths

from tests.compile_versions import ROOT, load_setup

FOLDER = ROOT / "build" / "sanitized"
# Fast enough to test with, and with lines in the reports.
COMMON_FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer"]


class BuildError(Exception):
    """The compiler or the linker refused."""


@dataclass(frozen=True)
class Sanitizer:
    """A sanitizer of GCC.

    Args:
        name: also of its folder below `build/sanitized`.
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
        """The value of LD_PRELOAD for a program that was built without the sanitizer.

        Raises:
            BuildError: if the compiler has no run-time library for it.
        """
        # The sanitizer looks for what throws exceptions when it starts.
        return " ".join(library_path(name) for name in (self.library, "libstdc++.so.6"))


ADDRESS = Sanitizer(
    "address",
    # Classes of PyTorch have no type information that is visible here.
    ("-fsanitize=address,undefined", "-fno-sanitize=vptr"),
    "libasan.so",
)
THREAD = Sanitizer("thread", ("-fsanitize=thread",), "libtsan.so")


def compiler(language: str) -> list[str]:
    if language == "c++":
        return shlex.split(os.environ.get("CXX", "c++"))
    return shlex.split(os.environ.get("CC", "cc"))


def library_path(name: str) -> str:
    """Where the compiler has a library.

    Raises:
        BuildError: if it has none of this name.
    """
    command = [*compiler("c"), f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        raise BuildError(f"'{shlex.join(command)}' finds none: install the sanitizers of GCC")
    return os.path.realpath(path)


def is_up_to_date(target: Path, command: Sequence[str]) -> bool:
    note = target.with_suffix(".command")
    dependencies = target.with_suffix(".d")
    if not (target.exists() and note.exists() and dependencies.exists()):
        return False
    if note.read_text() != shlex.join(command):
        return False
    made = target.stat().st_mtime
    words = dependencies.read_text().replace("\\\n", " ").split()[1:]
    return all(os.path.exists(word) and os.stat(word).st_mtime <= made for word in words)


def call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def compile_sources(
    sources: Sequence[str], language: str, flags: Sequence[str], folder: Path, jobs: int
) -> list[Path]:
    """Compiles files, given relative to the project, where something they read has changed.

    Raises:
        BuildError: with what the compiler said of the first file that does not compile.
    """
    cache = [found] if (found := shutil.which("ccache")) is not None else []

    def compile_one(source: str) -> Path:
        target = folder / f"{source}.o"
        command = [*compiler(language), *flags, "-fPIC", "-c", source, "-o", str(target)]
        command += ["-MMD", "-MF", str(target.with_suffix(".d"))]
        if not is_up_to_date(target, command):
            target.parent.mkdir(parents=True, exist_ok=True)
            call([*cache, *command])
            target.with_suffix(".command").write_text(shlex.join(command))
            print(f"    {source}", flush=True)
        return target

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(compile_one, sources))


def link(
    objects: Sequence[Path], target: Path, language: str, flags: Sequence[str], *, shared: bool
) -> None:
    """Links a library or a program.

    Raises:
        BuildError: with what the linker said.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [*compiler(language), *(["-shared"] if shared else [])]
    call([*command, *map(str, objects), "-o", str(target), *flags])


def extensions() -> tuple[dict[str, Extension], list[str]]:
    """What setup.py builds, by the last part of its name, and the flags of a build with stubs."""
    setup = load_setup()
    setup.drop_compiler_cache()
    found = {e.name.rpartition(".")[2]: e for e in setup.native_extensions()}
    return found, setup.cpu_stub_flags()


def units(extension: Extension, folder: Path) -> list[str]:
    """What setup.py has the compiler read in the place of the sources, written below `folder`."""
    paths = load_setup().compilation_units(extension.sources, folder)
    return [str(Path(path).relative_to(ROOT)) for path in paths]


def torch_flags(extension: Extension, sanitizer: Sanitizer) -> list[str]:
    """The compiler's flags for a file that sees PyTorch's headers."""
    name = extension.name.rpartition(".")[2]
    flags = [*extension.extra_compile_args, *COMMON_FLAGS, *sanitizer.flags]
    flags += [f for f in sysconfig.get_config_var("CFLAGS").split() if f.startswith("-D")]
    flags += ["-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={name}"]
    flags += [f"-I{p}" for p in [*extension.include_dirs, *include_paths()]]
    return [*flags, f"-I{sysconfig.get_path('include')}"]


def torch_link_flags(sanitizer: Sanitizer) -> list[str]:
    flags = [*sanitizer.flags, "-ldl", "-lpthread"]
    for folder in library_paths():
        flags += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    return [*flags, "-ltorch", "-ltorch_cpu", "-lc10"]


def build_driver(extension: Extension, sanitizer: Sanitizer, target: Path, jobs: int) -> None:
    """Builds a driver's library as `target`.

    Raises:
        BuildError: with what the compiler or the linker said.
    """
    flags = [f for f in extension.extra_compile_args if f not in ("-shared", "-O2", "-g")]
    flags += [*COMMON_FLAGS, *sanitizer.flags, *(f"-I{p}" for p in extension.include_dirs)]
    folder = sanitizer.folder / "objects"
    objects = []
    for language, ending, standard in (("c++", ".cpp", "-std=c++20"), ("c", ".c", "-std=c11")):
        # What drivers have in common is C.
        sources = [source for source in extension.sources if source.endswith(ending)]
        kept = [f for f in flags if not f.startswith("-std=")]
        objects += compile_sources(sources, language, [standard, *kept], folder, jobs)
    end = [*sanitizer.flags, *extension.extra_link_args]
    link(objects, target, extension.language, end, shared=True)


def build_package(sanitizer: Sanitizer, jobs: int) -> Path:
    """Builds all native parts and lays a copy of the package around them.

    Returns:
        The folder that holds the package, for PYTHONPATH.

    Raises:
        BuildError: with what the compiler or the linker said.
    """
    found, stubs = extensions()
    folder = sanitizer.folder / "package"
    package = folder / "torch_outboard"
    skip = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "torch_outboard", package, ignore=skip, dirs_exist_ok=True)
    shutil.copytree(
        ROOT / "csrc" / "include" / "outboard", package / "include/outboard", dirs_exist_ok=True
    )
    objects_folder = sanitizer.folder / "objects"
    units_folder = sanitizer.folder / "units"

    library = found.pop("libtorch_outboard")
    flags = [*torch_flags(library, sanitizer), *stubs]
    objects = compile_sources(units(library, units_folder), "c++", flags, objects_folder, jobs)
    end = ["-fopenmp", *torch_link_flags(sanitizer)]
    link(objects, package / "lib" / "libtorch_outboard.so", "c++", end, shared=True)

    binding = found.pop("_C")
    flags = torch_flags(binding, sanitizer)
    objects = compile_sources(units(binding, units_folder), "c++", flags, objects_folder, jobs)
    end = [f"-L{package / 'lib'}", "-Wl,-rpath,$ORIGIN/lib", "-ltorch_outboard"]
    end += [*torch_link_flags(sanitizer), "-ltorch_python"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    link(objects, package / f"_C{suffix}", "c++", end, shared=True)

    for name, driver in found.items():
        target = package / "drivers" / name.removeprefix("libob_") / f"{name}.so"
        build_driver(driver, sanitizer, target, jobs)
    return folder


def default_jobs() -> int:
    """The compilers that run at once: MAX_JOBS of the environment, or one per processor."""
    return int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)


def fail(error: BuildError) -> int:
    """Says what was refused; the exit status."""
    print(f"The build with a sanitizer failed.\n{error}", file=sys.stderr)
    return 2
