"""The check against other versions of PyTorch finds what it is there to find."""

import re
from pathlib import Path

import pytest

from tests import compile_versions
from tests.compile_versions import Source, Target, check_target
from tests.version_headers import Unavailable, check_version, python_headers


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one file, and headers of two versions of something called PyTorch."""
    root = tmp_path / "project"
    (root / "csrc").mkdir(parents=True)
    (root / "csrc" / "a.cpp").write_text("#include <api.h>\nint a() { return called(1); }\n")
    (tmp_path / "python").mkdir()
    for version in ("1", "2"):
        (tmp_path / version / "torch" / "include").mkdir(parents=True)
        (tmp_path / version / "torch" / "include" / "api.h").write_text("int called(int);\n")
    monkeypatch.setattr(compile_versions, "ROOT", root)
    return root


def target(project: Path, version: str, stubs: bool = False) -> Target:
    return Target(version, "3", stubs, project.parent / version, project.parent / "python")


SOURCE = Source("csrc/a.cpp", ("-std=c++20",), (), ("-DSTUBS",))


def check(project: Path, version: str, stubs: bool = False) -> tuple[int, int, int]:
    """How many files were taken from an earlier run, how many passed, how many failed."""
    passed = project.parent / "passed"
    row, failures = check_target(target(project, version, stubs), [SOURCE], passed, jobs=1)
    assert len(failures) == row.failed
    return row.same, row.ok, row.failed


def test_same_headers_are_compiled_once(project: Path) -> None:
    assert check(project, "1") == (0, 1, 0)
    assert check(project, "1") == (1, 1, 0)
    assert check(project, "2") == (1, 1, 0)
    # No file mentions the macro.
    assert check(project, "1", stubs=True) == (1, 1, 0)


def test_a_version_whose_header_differs_fails(project: Path) -> None:
    other = project.parent / "2" / "torch" / "include" / "api.h"
    other.write_text("int called(int, int);\n")
    assert check(project, "1") == (0, 1, 0)
    assert check(project, "2") == (0, 0, 1)
    # A failure is not remembered as anything.
    assert check(project, "2") == (0, 0, 1)
    other.write_text("int called(long);\n")
    assert check(project, "2") == (0, 1, 0)


def test_a_changed_source_and_a_macro_that_is_mentioned(project: Path) -> None:
    assert check(project, "1") == (0, 1, 0)
    source = project / "csrc" / "a.cpp"
    source.write_text("#ifdef STUBS\n#error stubs\n#endif\nint a() { return 1; }\n")
    assert check(project, "1") == (0, 1, 0)
    assert check(project, "1", stubs=True) == (0, 0, 1)


def test_every_source_of_the_project_is_looked_at() -> None:
    root = compile_versions.ROOT
    sources = compile_versions.project_sources()
    by_path = {source.path: source for source in sources}
    stubs = by_path["csrc/cpu_kernels/typed/stubs.cpp"]
    assert "-DOUTBOARD_CPU_STUBS" in stubs.stub_flags
    assert "-std=c++20" in stubs.flags
    assert "-DTORCH_EXTENSION_NAME=_C" in by_path["csrc/python/module.cpp"].flags
    assert len(sources) == len(list((root / "csrc").rglob("*.cpp")))
    # Units hold every source, of one folder, with the flags of the sources in them.
    units = compile_versions.units_of(sources, compile_versions.FOLDER / "units")
    found = []
    for unit in units:
        paths = re.findall(r'#include "(.*)"', (root / unit.path).read_text())
        assert len({Path(path).parent for path in paths}) == 1
        found += [(path, unit.flags) for path in paths]
    assert sorted(found) == sorted((source.path, source.flags) for source in sources)
    assert len(units) < len(sources) / 2


def test_headers_that_are_not_there(tmp_path: Path) -> None:
    header = tmp_path / "torch/include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 12\n")
    check_version(tmp_path, "2.12.0")
    with pytest.raises(Unavailable, match=r"torch 2\.11\.0 holds headers of 2\.12"):
        check_version(tmp_path, "2.11.0")
    with pytest.raises(Unavailable, match=r"no interpreter of Python 3\.99 runs"):
        python_headers("3.99", ["/no/such/python"])
