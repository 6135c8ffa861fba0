"""Each broken driver is found by its check, by name, and none makes the checks hang."""

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.check.broken_drivers import BROKEN, Broken
from tests.support import ROOT, kernels_run_on
from torch_outboard.check.catalog import GROUPS, all_checks, chosen
from torch_outboard.check.outcome import Outcome, Verdict
from torch_outboard.check.runner import Options, run_checks
from torch_outboard.drivers import host, ocl

FOLDER = Path(__file__).parent
INCLUDE = f"-I{ROOT / 'csrc' / 'include'}"
LONGEST = 10.0  # seconds of a check, most of which take some milliseconds
# Two gibibytes are copied, and a program is built.
SLOW = ("copies_of_2_gib_are_dropped", "fills_of_2_gib_are_cut")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The broken driver, and `host` with a library."""
    folder = tmp_path_factory.mktemp("broken")
    sources = {
        "broken": sorted((FOLDER / "broken").glob("*.cpp")),
        "library": [ROOT / "tests" / "library" / "library_driver.cpp"],
    }
    found = {name: folder / f"libob_{name}.so" for name in sources}
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", INCLUDE]
    for name, files in sources.items():
        subprocess.run(["c++", *flags, *files, "-o", found[name], "-ldl", "-lpthread"], check=True)
    return found


def settings_of(base: str, libraries: dict[str, Path]) -> dict[str, str]:
    """The environment of a broken driver, without its fault."""
    if base == "ocl":
        return {"BROKEN_BASE": ocl.library_path(), "OUTBOARD_OCL_COPIES": "2"}
    access = "separate" if base == "separate" else "shared"
    return {
        "BROKEN_BASE": str(libraries["library"]),
        "LIBRARY_DRIVER_BASE": host.library_path(),
        "OUTBOARD_HOST_ACCESS": access,
        "OUTBOARD_HOST_DEVICES": "2",
        "OUTBOARD_CLANG": "none",
    }


def outcomes(
    fault: str,
    base: str,
    names: list[str],
    libraries: dict[str, Path],
    longest: float = LONGEST,
    jobs: int = 2,
) -> list[Outcome]:
    """What the direct run of these checks gives."""
    settings = settings_of(base, libraries) | {"BROKEN_FAULT": fault}
    options = Options(("direct",), jobs=jobs, settings=settings, longest=longest)
    report = run_checks(str(libraries["broken"]), chosen(names), options)
    assert report.problem == ""
    return report.outcomes


def find(broken: Broken, libraries: dict[str, Path]) -> Outcome:
    longest = 60 if broken.base == "ocl" or broken.fault in SLOW else LONGEST
    (outcome,) = outcomes(broken.fault, broken.base, [broken.check], libraries, longest, 1)
    return outcome


def is_named(outcome: Outcome) -> bool:
    """Whether the outcome says what a maker needs to know."""
    words = outcome.function, outcome.says, outcome.expected, outcome.got, outcome.advice
    return outcome.verdict == Verdict.FAILED and all(words)


def test_list() -> None:
    """Each fault of the sources is in the list, and each group but training finds one."""
    sources = "".join(path.read_text() for path in (FOLDER / "broken").glob("*.cpp"))
    assert sorted(re.findall(r'^FAULT\("(\w+)"\)', sources, re.M)) == sorted(
        broken.fault for broken in BROKEN
    )
    assert len(BROKEN) >= 60
    assert {broken.check.partition(".")[0] for broken in BROKEN} == {*GROUPS} - {"training"}


def test_found(libraries: dict[str, Path]) -> None:
    quick = [each for each in BROKEN if each.base != "ocl" and each.fault not in SLOW]
    with ThreadPoolExecutor(6) as pool:  # some wait for what does not come
        found = pool.map(lambda broken: find(broken, libraries), quick)
    missed = [pair for pair in zip(quick, found, strict=True) if not is_named(pair[1])]
    assert missed == []


@pytest.mark.parametrize("broken", [b for b in BROKEN if b.base == "ocl"], ids=lambda b: b.fault)
@pytest.mark.slow
def test_found_with_kernels(broken: Broken, libraries: dict[str, Path]) -> None:
    if not kernels_run_on("ocl"):
        pytest.skip("no device compiles code; `python -m torch_outboard doctor` says why")
    outcome = find(broken, libraries)
    assert is_named(outcome), outcome


@pytest.mark.slow
@pytest.mark.parametrize("fault", SLOW)
def test_found_with_2_gibibytes(fault: str, libraries: dict[str, Path]) -> None:
    (broken,) = (each for each in BROKEN if each.fault == fault)
    outcome = find(broken, libraries)
    if outcome.verdict == Verdict.NOT_TESTABLE:
        pytest.skip(outcome.reason)
    assert is_named(outcome), outcome


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "broken", [b for b in BROKEN if b.base != "ocl" and b.fault not in SLOW], ids=lambda b: b.fault
)
def test_whole_suite_on_a_broken_driver(broken: Broken, libraries: dict[str, Path]) -> None:
    """All checks end, the one for the fault fails, and every failure says what to do."""
    groups = [group for group in GROUPS if group != "training"]
    begin = time.monotonic()
    found = outcomes(broken.fault, broken.base, groups, libraries, 4)
    failed = {each.check: each for each in found if each.verdict == Verdict.FAILED}
    assert broken.check in failed
    assert all(is_named(each) for each in failed.values())
    assert len(found) == sum(each.group != "training" for each in all_checks().values())
    assert time.monotonic() - begin < 1000


@pytest.mark.slow
@pytest.mark.parametrize("base", ["library", "separate", "ocl"])
def test_without_a_fault_everything_passes(base: str, libraries: dict[str, Path]) -> None:
    if base == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("no device compiles code; `python -m torch_outboard doctor` says why")
    groups = [group for group in GROUPS if group != "training"]
    found = outcomes("none", base, groups, libraries, longest=120)
    assert [each for each in found if each.verdict == Verdict.FAILED] == []
