"""Headers of any version of PyTorch and Python, without installing either."""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

# Linux wheels for this processor hold CPU code only, so they are half the size of those for x86-64.
# The headers choose what they show by the compiler's macros and not by the wheel.
PLATFORM = "manylinux_2_28_aarch64"


class Unavailable(Exception):
    """A version that cannot be looked at here; says why."""


def torch_headers(cache: Path, version: str, python: str, wheel_platform: str = PLATFORM) -> Path:
    """The folder that holds `torch/include` of a version; downloaded unless it is there.

    The wheels of a version for several Pythons hold the same headers, so they are cached once.

    Args:
        cache: folder of the headers of all versions.
        version: all three numbers.
        python: major and minor of the Python whose wheel to take.
        wheel_platform: tag of the wheel's platform.

    Raises:
        Unavailable: there is no such wheel, or it holds something else.
    """
    tag = f"torch-{version}-{wheel_platform}"
    folder = cache / tag
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    print(f"==> downloading {tag}", flush=True)
    # In this folder and not in the system's: the wheel has some hundred megabytes.
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir"]
        command += ["--no-deps", "--only-binary=:all:", f"--platform={wheel_platform}"]
        command += ["--implementation=cp", f"--python-version={python}"]
        command += [f"--dest={temporary}", f"torch=={version}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(temporary).glob("torch-*.whl"))
        if result.returncode != 0 or len(wheels) != 1:
            reason = (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise Unavailable(f"torch {version} for Python {python}: {reason}")
        unpacked = Path(temporary, "unpacked")
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = [n for n in wheel.namelist() if n.startswith("torch/include/")]
            wheel.extractall(unpacked, names)
        check_version(unpacked, version)
        unpacked.rename(folder)
    return folder


def check_version(folder: Path, version: str) -> None:
    text = Path(folder, "torch/include/torch/headeronly/version.h").read_text()
    found = [re.search(rf"define TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    numbers = [match.group(1) for match in found if match]
    if numbers != version.split(".")[:2]:
        raise Unavailable(f"the wheel of torch {version} holds headers of {'.'.join(numbers)}")


def python_headers(version: str, interpreters: Iterable[str]) -> Path:
    """The folder with Python.h of a version.

    Args:
        version: major and minor.
        interpreters: commands to try before `python<version>`.

    Raises:
        Unavailable: no interpreter of that version runs, or it came without headers.
    """
    program = (
        "import sys, sysconfig as s; print('%d.%d' % sys.version_info[:2], s.get_path('include'))"
    )
    # pyenv's commands run the version that this variable names.
    environment = {**os.environ, "PYENV_VERSION": version}
    without_headers = ""
    for command in (*interpreters, f"python{version}", sys.executable):
        try:
            answer = subprocess.run(
                [command, "-c", program],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            ).stdout.strip()
        except OSError:
            continue
        found, _, include = answer.partition(" ")
        if found != version:
            continue
        if Path(include, "Python.h").exists():
            return Path(include)
        without_headers = f"{command} has no Python.h in {include}; install its development package"
    raise Unavailable(
        without_headers
        or f"no interpreter of Python {version} runs; install it or name it with --interpreter"
    )
