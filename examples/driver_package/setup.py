"""Compiles the driver into the package, where the kit finds it by its name."""

import os
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

import torch_outboard


class BuildDriver(build_py):
    def run(self):
        super().run()
        folder = Path("src" if self.editable_mode else self.build_lib, "mychip_torch")
        command = [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-shared", "-fPIC"]
        command += ["-fvisibility=hidden", f"-I{torch_outboard.include_paths()[0]}"]
        command += ["src/mychip_torch/mychip.c", "-o", str(folder / "libob_mychip.so")]
        subprocess.run(command, check=True)


class MachineCode(Distribution):
    """Its wheels are for one platform."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildDriver}, distclass=MachineCode)
