"""Installs the driver of this folder as a package, and trains a network on its device.

python examples/driver_package/run.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "installed")
        shutil.copytree(HERE, source)  # builds leave files beside the sources
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Not from an index: the requirements are installed already.
        pip += ["--no-index", "--no-deps", "--no-build-isolation", "--target", target, source]
        subprocess.run(pip, check=True)
        paths = [str(target), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {
            **{k: v for k, v in os.environ.items() if k != "OUTBOARD_PLACEMENT"},
            "OUTBOARD_DRIVER": "mychip",
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        }
        return subprocess.run([sys.executable, HERE / "train.py"], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
