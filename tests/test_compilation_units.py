"""The build has several sources of a folder compiled as one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.compile_versions import load_setup


def included(units: list[str]) -> list[Path]:
    texts = [Path(unit).read_text() for unit in units]
    return [Path(path) for text in texts for path in re.findall(r'#include "(.*)"', text)]


def test_each_source_is_in_one_unit(tmp_path):
    setup = load_setup()
    sources = setup.library_sources() + setup.sources("python")
    units = setup.compilation_units(sources, tmp_path)
    assert len(set(units)) == len(units) < len(sources) / 2
    found = included(units)
    assert sorted(found) == sorted(Path(source) for source in sources)
    for unit in units:
        members = included([unit])
        assert len({member.parent for member in members}) == 1
        assert 0 < len(members) <= setup.SOURCES_PER_UNIT


def test_only_what_changed_is_written(tmp_path):
    setup = load_setup()
    setup.SOURCES_PER_UNIT = 2
    many = [f"one/{name}.cpp" for name in "ab"] + ["two/c.cpp"]
    units = setup.compilation_units(many, tmp_path)
    assert Counter(path.parent.name for path in included(units)) == {"one": 2, "two": 1}
    times = {unit: Path(unit).stat().st_mtime_ns for unit in units}
    assert setup.compilation_units([*many, "two/d.cpp"], tmp_path) == units
    written = {unit for unit in units if Path(unit).stat().st_mtime_ns != times[unit]}
    assert {Path(unit).parent.name for unit in written} == {"two"}
