"""Compiles the driver into the package, where torch_outboard finds it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

# chip: its headers and libraries, such as "-I/opt/mychip/include", "-L/opt/mychip/lib", "-lmychip",
# "-Wl,-rpath,/opt/mychip/lib".
FLAGS = ["-Wall"]
# Sources of torch_outboard that the driver uses beside messages and settings: "--with", "queues".
PARTS = []


class BuildDriver(build_py):
    def run(self):
        super().run()
        package = Path("src" if self.editable_mode else self.build_lib, "mychip_torch")
        # pip hides installed packages from a build, but not from `python -E`.
        hidden = importlib.util.find_spec("torch_outboard") is None
        command = [sys.executable, *(["-E"] if hidden else [])]
        command += ["-m", "torch_outboard.drivers.building", "-o", str(package / "libob_mychip.so")]
        subprocess.run([*command, *PARTS, *FLAGS, "src/mychip_torch/mychip.c"], check=True)


class MachineCode(Distribution):
    """Its wheels are for one platform."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildDriver}, distclass=MachineCode)
