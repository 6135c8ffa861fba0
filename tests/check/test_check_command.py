"""`python -m torch_outboard check` on drivers of any kind."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, environment_without

MINIMAL = (ROOT / "tests" / "drivers" / "minimal_driver.c").read_text()


def compile_driver(folder: Path, source: str, name: str = "mychip") -> Path:
    library = folder / f"libob_{name}.so"
    (folder / "driver.c").write_text(source)
    command = ["cc", "-std=c11", "-shared", "-fPIC", f"-I{ROOT / 'csrc' / 'include'}"]
    subprocess.run([*command, folder / "driver.c", "-o", library], check=True)
    return library


def check(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch_outboard", "check", *map(str, arguments)]
    environment = environment_without("OUTBOARD_") | settings
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)


def test_minimal_driver_passes_and_says_what_it_lacks(tmp_path: Path) -> None:
    library = compile_driver(tmp_path, MINIMAL)
    result = check(library, *(f"--only={g}" for g in ("table", "devices", "memory", "queues")))
    assert result.returncode == 0, result.stdout
    assert f"{library}: Minimal device" in result.stdout
    assert re.search(r"optional function `host_callback` is missing: \S*memory", result.stdout)
    assert "the driver has one device, and 2 are needed" in result.stdout
    assert "second run is not delayed: the driver has no `host_callback`" in result.stdout
    assert re.search(
        r"\d\d passed, \d+ not offered, \d+ not testable; direct and behind", result.stdout
    )


WRONG = {
    "transfers.to_device_and_back": ("memcpy(destination, source, bytes);", ";"),
    "transfers.fills": ("i += pattern_bytes) memcpy(to + i", "i += 16) memcpy(to + i"),
    "queues.priorities": ("if (wanted->priority != 0)", "if (0)"),
    "devices.properties": (".alignment = ALIGNMENT", ".alignment = 48"),
}


def test_wrong_driver_fails(tmp_path: Path) -> None:
    source = MINIMAL
    for right, wrong in WRONG.values():
        assert source.count(right) == 1
        source = source.replace(right, wrong)
    library = compile_driver(tmp_path, source)
    result = check(library, "--run", "direct", *(f"--only={name}" for name in WRONG))
    assert result.returncode == 1, result.stdout
    assert set(re.findall(r"^FAILED (\S+) \(direct\)", result.stdout, re.M)) == set(WRONG)
    for title in ("function", "driver.h", "expected", "got", "next"):
        assert len(re.findall(rf"^  {title} +\S", result.stdout, re.M)) == len(WRONG)


def test_json(tmp_path: Path) -> None:
    library = compile_driver(tmp_path, MINIMAL.replace(*WRONG["transfers.fills"]))
    result = check("--json", "--only", "transfers.fills", "--only", "table", str(library))
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert report["counts"]["failed"] == 2
    assert {each["run"] for each in report["outcomes"]} == {"direct", "faults"}
    (failed,) = (
        each
        for each in report["outcomes"]
        if each["verdict"] == "failed" and each["run"] == "direct"
    )
    assert (failed["check"], failed["function"]) == ("transfers.fills", "fill")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("*count = 1;", "*count = 0;", "it found no device"),
        ("initialize(void* context) { return OB_OK; }", "initialize(void* context) { abort(); }",
         "ended the process: signal 6 (SIGABRT), last called: `initialize`"),
        (".major = OB_VERSION_MAJOR", ".major = 9", "of version 9 of the driver contract"),
    ],
)  # fmt: skip
def test_driver_that_cannot_be_opened(
    tmp_path: Path, right: str, wrong: str, expected: str
) -> None:
    library = compile_driver(tmp_path, MINIMAL.replace(right, wrong))
    result = check(library, "--only", "table")
    assert result.returncode == 1
    assert "The driver cannot be checked: " in result.stdout
    assert expected in " ".join(result.stdout.split())


def test_driver_and_names_that_do_not_exist(tmp_path: Path) -> None:
    result = check(tmp_path / "libob_nothing.so")
    assert result.returncode == 1
    assert f"the library {tmp_path / 'libob_nothing.so'} does not exist" in result.stdout
    result = check("nonesuch")
    assert "no driver of that name is installed" in result.stdout
    result = check("host", "--only", "nonesuch")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no check or group matches 'nonesuch'" in result.stderr


def test_list() -> None:
    result = check("--list")
    assert result.returncode == 0
    assert re.search(r"^transfers\.fills +Patterns of each width", result.stdout, re.M)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "settings"),
    [
        ("host", {"OUTBOARD_HOST_ACCESS": "shared"}),
        ("host", {"OUTBOARD_HOST_ACCESS": "separate"}),
        *(("ocl", {"OUTBOARD_OCL_MEMORY": kind}) for kind in ("shared", "coarse", "handles")),
    ],
)
@pytest.mark.timeout(900)
def test_drivers_of_this_package(driver: str, settings: dict[str, str]) -> None:
    result = check(driver, **settings)
    if "it found no device" in result.stdout:
        pytest.skip(result.stdout)
    assert result.returncode == 0, result.stdout
