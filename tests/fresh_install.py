"""Installs a wheel and a source distribution as a user would, and uses the device from there.

    python -m tests.fresh_install dist

Each goes into a separate environment, in `build/packages`, that has the PyTorch of this one and
nothing else of it. The source distribution is compiled, so this takes as long as a build.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "packages"

PROGRAM = """
import torch
x = torch.ones(2, device="ocl")
assert (x + x).tolist() == [2.0, 2.0]

import pathlib, subprocess, sys
import torch_outboard
with torch_outboard.placement.use("device"):
    assert (x * 3).tolist() == [3.0, 3.0]
package = pathlib.Path(torch_outboard.__file__).parent
assert package.is_relative_to(sys.prefix), package
(headers,) = torch_outboard.include_paths()
assert "ob_driver_table" in pathlib.Path(headers, "outboard", "driver.h").read_text()
assert pathlib.Path(torch_outboard.cmake_path(), "torch_outboardConfig.cmake").exists()
assert pathlib.Path(torch_outboard.library_path()).exists()
assert (package / "drivers" / "host" / "host.c").exists()
subprocess.run([sys.executable, "-m", "torch_outboard", "scoreboard", "--list"], check=True)
print(f"torch_outboard {torch_outboard.__version__}, PyTorch {torch.__version__}: {x.device} works")
"""


def make_environment(folder: Path, packages: Sequence[str]) -> Path:
    """A new virtual environment with these packages; returns its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install(python, packages)
    return python


def install(python: Path, arguments: Sequence[str]) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)


def use_device(python: Path, **settings: str) -> None:
    """Runs the program in an empty folder, with no setting but these and a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
            "OUTBOARD_CACHE_DIR": f"{folder}/cache",
            **settings,
        }
        subprocess.run([str(python), "-c", PROGRAM], cwd=folder, env=environment, check=True)


def unpack(source: Path) -> Path:
    """Where a source distribution now lies: always the same folder, as compiler caches like it."""
    shutil.rmtree(FOLDER / "sdist", ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(FOLDER / "sdist", filter="data")
    (project,) = (FOLDER / "sdist").iterdir()
    return project


def only(folder: Path, pattern: str) -> Path:
    """The one file in a folder that matches.

    Raises:
        SystemExit: if there is none, or more than one.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"one {pattern} is needed in {folder}, and there are {len(found)}")
    return found[0]


def main(argv: Sequence[str]) -> int:
    dist = Path(argv[0])
    tag = sys.implementation.cache_tag.replace("cpython-", "cp")
    wheel = only(dist, f"*-{tag}-*.whl")
    source = only(dist, "*.tar.gz")
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source)], check=True
    )
    version = torch.__version__.partition("+")[0]

    print(f"\n==> {wheel.name}", flush=True)
    # The wheel names the version; which of its builds is the caller's choice.
    use_device(make_environment(FOLDER / "wheel", [f"torch=={version}", str(wheel)]))

    print(f"\n==> {source.name}", flush=True)
    project = unpack(source)
    tools = ["-r", str(project / "requirements" / "build.txt")]
    python = make_environment(project / ".venv", [f"torch=={version}", *tools])
    install(python, ["--no-build-isolation", str(project)])
    use_device(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
