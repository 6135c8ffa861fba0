"""Library calls of a driver: the checks of this folder on devices of every kind.

They need a driver with a library, so each runs in a separate process; to run one by hand:

    python -m pytest tests/library -k ocl
"""

import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, kernels_run_on, run_pytest
from torch_outboard.drivers import host, ocl

FOLDER = Path(__file__).parent
# With kernels and without, on memory that the host shares and that it does not. Fault injection
# checks descriptions.
DEVICES = {
    "shared": (host, {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_FAULTS": "count"}),
    "separate": (host, {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_FAULTS": "count"}),
    "ocl": (ocl, {"OUTBOARD_PLACEMENT": "device"}),
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("library") / "libob_chip.so"
    command = ["c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
    command += [f"-I{ROOT / 'csrc' / 'include'}", str(FOLDER / "library_driver.cpp")]
    subprocess.run([*command, "-o", str(library), "-ldl"], check=True)
    return library


slow = pytest.mark.slow
CASES = [
    ("shared", "product convolution"),
    ("ocl", "product"),
    pytest.param("separate", "product convolution", marks=slow),
    pytest.param("ocl", "convolution", marks=slow),
]


@pytest.mark.by_turns(2)
@pytest.mark.parametrize(("kind", "checks"), CASES)
def test_library(driver: Path, kind: str, checks: str) -> None:
    base, settings = DEVICES[kind]
    if kind == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("no device compiles code; `python -m torch_outboard doctor` says why")
    files = [FOLDER / f"{name}_checks.py" for name in checks.split()]
    drivers = {"LIBRARY_DRIVER_BASE": base.library_path(), "OUTBOARD_DRIVER": str(driver)}
    without = ("OUTBOARD_", "PYTEST_")
    result = run_pytest(*files, without=without, timeout=400, **settings, **drivers)
    assert result.returncode == 0, result.stdout + result.stderr
