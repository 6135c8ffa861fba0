"""The faults of `make test-power`."""

import os

import pytest

from tests.power.__main__ import WANTED, Result, apply, table
from tests.power.faults import FAULTS, KINDS, Fault
from tests.run import ROOT


@pytest.mark.skipif(os.environ.get("TEST_TURN") == "power", reason="the copy has a fault")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_line_of_the_sources(fault: Fault) -> None:
    content = (ROOT / fault.file).read_text()
    assert content.count(fault.old) == 1, f"{fault.file} has changed: choose another line"
    changed = content.replace(fault.old, fault.new)
    assert changed != content
    assert "\n" not in fault.old + fault.new
    if fault.file.endswith(".py"):
        compile(changed, fault.file, "exec")


def test_names_and_kinds() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    assert {fault.kind for fault in FAULTS} == set(KINDS)


def test_a_text_that_is_gone_is_an_error(tmp_path) -> None:
    fault = Fault("x", KINDS[0], "file", "old", "new", "")
    (tmp_path / "file").write_text("other")
    with pytest.raises(ValueError, match="has the text 0 times"):
        apply(fault, tmp_path)
    (tmp_path / "file").write_text("an old line")
    apply(fault, tmp_path)
    assert (tmp_path / "file").read_text() == "an new line"


def test_the_table_counts_what_was_found() -> None:
    first, second = (fault.name for fault in FAULTS[:2])
    lines = table([Result(first, "near", "test_x", 3.0), Result(second, "", "", 9.0)])
    assert "near: `test_x`" in lines
    assert "**nothing**" in lines
    assert lines.endswith("1 of 2 faults found.")
    assert 0 < WANTED < 1
