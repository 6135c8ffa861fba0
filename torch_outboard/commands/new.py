"""`python -m torch_outboard new`: writes the project of a driver, which installs and runs at once.

    python -m torch_outboard new mychip --products
    python -m torch_outboard new mychip --memory shared --queues threads --compiler clang
    python -m torch_outboard new mychip --python

Its files are those of the folder `driver_project`, for a chip that is called `mychip`. There stand
`#if`, `#else` and `#endif` with names of options in capitals; what is written has none.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_outboard.drivers.discovery import installed_drivers
from torch_outboard.loading.activation import name_problem
from torch_outboard.setting_table import SETTINGS

TEMPLATES = Path(__file__).parent / "driver_project"


@dataclass(frozen=True)
class Options:
    """What a project is written for."""

    name: str
    memory: str = "separate"
    queues: str = "native"
    compiler: str = "none"
    products: bool = False
    python: bool = False

    @property
    def words(self) -> frozenset[str]:
        """The names that are true in `#if`."""
        words = {self.memory.upper(), self.queues.upper()}
        if self.compiler != "none":
            words |= {"COMPILER", self.compiler.upper(), "PYTHON" if self.python else "C_KERNELS"}
        return frozenset(words | ({"PRODUCTS"} if self.products else set()))

    @property
    def command(self) -> str:
        """The command that writes the project."""
        options = {
            "--memory shared": self.memory == "shared",
            "--queues threads": self.queues == "threads",
            f"--compiler {self.compiler}": self.compiler != "none",
            "--products": self.products,
            "--python": self.python,
        }
        given = (option for option, taken in options.items() if taken)
        return " ".join([f"python -m torch_outboard new {self.name}", *given])


WORDS = {
    "SEPARATE", "SHARED", "NATIVE", "THREADS", "COMPILER", "OPENCL", "CLANG", "PYTHON", "C_KERNELS",
    "PRODUCTS",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options to its parser."""
    parser.add_argument("name", help="of the device in PyTorch, such as mychip")
    parser.add_argument(
        "--memory", choices=("separate", "shared"), default="separate",
        help="whether the host can use device memory as its own (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--queues", choices=("native", "threads"), default="native",
        help="native: calls of the chip queue work, or return when it is done; threads: threads of "
        "the host run work, on memory that the host can reach (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--compiler", choices=("none", "opencl", "clang"),
        help="what compiles kernels: nothing, a compiler of OpenCL C, or a clang for the chip's "
        "processor (default: none; with --python: clang)",
    )  # fmt: skip
    parser.add_argument(
        "--products", action="store_true", help="with matrix products by the chip's library"
    )
    parser.add_argument(
        "--python", action="store_true",
        help="with programs and launches in Python, for bring-up; memory and copies stay in C",
    )  # fmt: skip
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="to write, which does not exist (default: ./NAME)",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    compiler = options.compiler or ("clang" if options.python else "none")
    wanted = Options(
        options.name, options.memory, options.queues, compiler, options.products, options.python
    )
    folder = options.folder or Path(options.name)
    if problem := problem_with(wanted, folder):
        print(problem, file=sys.stderr)
        return 1
    written = files(wanted)
    write(written, folder)
    print(f"wrote {len(written)} files to {folder}. Next:")
    print(f"    pip install {folder if folder.is_absolute() else f'./{folder}'}")
    device = f'import torch; print(torch.ones(2, device="{wanted.name}"))'
    print(f"    OUTBOARD_DRIVER={wanted.name} python -c '{device}'")
    print(f"{folder / 'README.md'} has the next steps.")
    return 0


# ---- What is refused


def problem_with(wanted: Options, folder: Path) -> str | None:
    """Why no project is written, in one sentence; None if it can be."""
    if wanted.python and wanted.compiler == "none":
        return "--python writes programs and launches, which --compiler none leaves out."
    if wanted.python and wanted.queues == "threads":
        return (
            "--python needs --queues native: a launch in Python on a queue's thread would deadlock "
            "with a thread that holds the interpreter lock and waits for the queue."
        )
    if problem := problem_with_name(wanted.name):
        return problem
    if folder.exists():
        return f"{folder} exists already: choose another folder with --folder."
    return None


def problem_with_name(name: str) -> str | None:
    """Why a driver cannot have this name, in one sentence; None if it can."""
    why = _why_taken(name)
    if why is None:
        return None
    other = re.sub(r"[^a-z_]", "", name.lower()).strip("_")
    advice = other if other and _why_taken(other) is None else "another name"
    return f"{name!r} cannot name a new device: {why}; take {advice}."


def _why_taken(name: str) -> str | None:
    if _is_installed(f"{name}-torch"):
        return f"a package {name}-torch is installed, which `pip uninstall {name}-torch` removes"
    if name in installed_drivers():
        return "a driver of that name is installed"
    if problem := name_problem(name):
        return problem
    if name.startswith("_") or name.endswith("_"):
        return "names of packages begin and end with a letter"
    if keyword.iskeyword(name):
        return f"Python reads `torch.{name}` as a keyword"
    if taken := next((s for s in SETTINGS if s.startswith(f"OUTBOARD_{name.upper()}_")), None):
        return f"its settings would look like torch_outboard's, such as {taken}"
    if importlib.util.find_spec(f"{name}_torch") is not None:
        return f"a module {name}_torch is installed"
    return None


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# ---- What is written


def files(wanted: Options) -> dict[str, str]:
    """The texts of a project, by their paths in it."""
    package = f"src/{wanted.name}_torch"
    driver = "".join(_text(path, wanted) for path in sorted(TEMPLATES.glob("driver/*.in")))
    found = {f"{package}/{wanted.name}.c": driver.rstrip("\n") + "\n"}
    for template, path in _places(wanted, package):
        found[path] = _text(TEMPLATES / template, wanted)
    return dict(sorted(found.items()))


def write(texts: dict[str, str], folder: Path) -> None:
    """Writes texts below a folder, which may exist."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _places(wanted: Options, package: str) -> Iterator[tuple[str, str]]:
    yield from (
        (f"{name}.in", name) for name in ("README.md", "pyproject.toml", "setup.py", "train.py")
    )
    yield "gitignore.in", ".gitignore"
    yield "workflow.yml.in", ".github/workflows/test.yml"
    yield "test_driver.py.in", f"tests/test_{wanted.name}.py"
    yield "init.py.in", f"{package}/__init__.py"
    if wanted.python:
        yield "kernels.py.in", f"{package}/kernels.py"


def _text(template: Path, wanted: Options) -> str:
    text = resolved(template.read_text(), wanted.words)
    text = text.replace("COMMAND_OF_NEW", wanted.command)
    return text.replace("mychip", wanted.name).replace("MYCHIP", wanted.name.upper())


def resolved(text: str, words: frozenset[str]) -> str:
    """A text without its conditions: those lines under `#if` that hold for these words.

    A condition is a word, `!` and a word, or several of these with `&&` between them.
    """
    taken: list[bool] = []  # of each condition around the line
    lines = []
    for line in text.splitlines(keepends=True):
        directive = line.split()[:1]
        if directive == ["#if"]:
            taken.append(all(_holds(part, words) for part in line.split("#if")[1].split("&&")))
        elif directive == ["#else"]:
            taken.append(not taken.pop())
        elif directive == ["#endif"]:
            taken.pop()
        elif all(taken):
            lines.append(line)
    if taken:
        raise ValueError("a condition has no end")
    return "".join(lines)


def _holds(condition: str, words: frozenset[str]) -> bool:
    word = condition.strip().removeprefix("!")
    if word not in WORDS:
        raise ValueError(f"{word} is not an option of a project")
    return (word in words) != condition.strip().startswith("!")
