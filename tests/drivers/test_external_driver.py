"""The tests of this folder on a driver that is not of this package, as vendors run them."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from driver_support import problem_of_external

from tests.support import ROOT, run_pytest

pytestmark = pytest.mark.by_turns(3)

FOLDER = Path(__file__).parent


def compile_driver(folder: Path, source: str, name: str = "mychip") -> Path:
    library = folder / f"libob_{name}.so"
    (folder / "driver.c").write_text(source)
    command = ["cc", "-std=c11", "-shared", "-fPIC", f"-I{ROOT / 'csrc' / 'include'}"]
    subprocess.run([*command, folder / "driver.c", "-o", library], check=True)
    return library


def run_tests(driver: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_pytest("--driver", driver, *options, without=("PYTEST_XDIST",))


MINIMAL = (FOLDER / "minimal_driver.c").read_text()


def test_minimal_driver_passes_and_says_what_it_lacks(tmp_path: Path) -> None:
    library = compile_driver(tmp_path, MINIMAL)
    result = run_tests(library, str(FOLDER))
    assert result.returncode == 0, result.stdout
    assert re.search(rf"{library}: \d\d+ tests passed", result.stdout)
    for name in ("host_callback", "copy_peer", "copy_host_to_device_2d", "memory_info"):
        assert re.search(rf"without optional function {name}: \d+ tests skipped", result.stdout)
    assert "optional function `host_allocate` is missing" in result.stdout
    assert "deselected" in result.stdout


WRONG = {
    "test_to_device_and_back": ("memcpy(destination, source, bytes);", ";"),
    "test_fill": ("i += pattern_bytes) memcpy(to + i", "i += 16) memcpy(to + i"),
    "test_priorities": ("if (wanted->priority != 0)", "if (0)"),
    "test_properties_make_sense": (".alignment = ALIGNMENT", ".alignment = 48"),
}


def test_wrong_driver_fails(tmp_path: Path) -> None:
    source = MINIMAL
    for right, wrong in WRONG.values():
        assert source.count(right) == 1
        source = source.replace(right, wrong)
    library = compile_driver(tmp_path, source)
    files = [str(FOLDER / f"test_driver_{name}.py") for name in ("transfers", "queues", "devices")]
    result = run_tests(library, *files, "-k", " or ".join(WRONG))
    assert result.returncode == 1, result.stdout
    assert set(re.findall(r"^FAILED .*::(\w+)\[external\]", result.stdout, re.M)) == set(WRONG)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("*count = 1;", "*count = 0;", "it found no device"),
        ("initialize(void* context) { return OB_OK; }", "initialize(void* context) { abort(); }",
         f"ended the process by signal {int(signal.SIGABRT)}"),
    ],
)  # fmt: skip
def test_driver_that_cannot_be_tested(
    tmp_path: Path, right: str, wrong: str, expected: str
) -> None:
    library = compile_driver(tmp_path, MINIMAL.replace(right, wrong))
    assert expected in (problem_of_external(str(library)) or "it can")


def test_driver_that_does_not_exist(tmp_path: Path) -> None:
    driver = tmp_path / "libob_nothing.so"
    # Other files look for what this machine has while they are collected.
    result = run_tests(driver, str(FOLDER / "test_driver_devices.py"))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"driver {driver} cannot be tested: " in result.stderr
    assert "passed" not in result.stdout
