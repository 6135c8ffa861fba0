"""Pictures of documents exist for light and dark pages, and are what `tools.charts` draws."""

import re
from pathlib import Path

import pytest

from tests.documents.blocks import DOCUMENTS, ROOT
from tools import charts

SHOWN = re.compile(r'\b(?:src|srcset)="(?!https?:)([^"]+)"')


def test_pictures_are_what_the_tool_draws() -> None:
    drawn = charts.pictures()
    committed = {path.name: path.read_text() for path in charts.PICTURES.glob("*.svg")}
    assert committed == drawn, "python -m tools.charts"
    assert charts.main(["--check"]) == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shown_pictures_exist(document: Path) -> None:
    shown = SHOWN.findall(document.read_text())
    assert [name for name in shown if not (document.parent / name).exists()] == []
    names = {Path(name).stem.rpartition("-")[0] for name in shown}
    assert {Path(name).name for name in shown} == {
        f"{name}-{theme}.svg" for name in names for theme in charts.THEMES
    }


def test_a_missing_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MEMORY_BOUND", ("no such operator",))
    with pytest.raises(KeyError, match="no such operator"):
        charts.charts()


def test_dots_stand_where_the_ratios_are() -> None:
    row = charts.Row("x", ((0.5, 0.4, 3.0),))
    chart = charts.Chart("c", [charts.Panel("p & q", [row])], 1.0)
    picture = charts.draw_chart(chart, charts.THEMES["light"])
    width = charts.WIDTH - charts.LEFT - charts.RIGHT
    assert f"<circle cx='{charts.LEFT + width / 2:.1f}'" in picture
    assert f"x2='{charts.LEFT + width:.1f}'" in picture, "an interval ends at the limit"
    assert "p &amp; q" in picture
