"""Collectives drawn at random, against CPU; and ranks that are killed at random moments."""

import pytest

from tests.distributed import kills, random_collectives


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("way", ["auto", pytest.param("gloo", marks=pytest.mark.slow)])
def test_collectives(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", way)
    random_collectives.run(7, 0, 96, timeout=200)


@pytest.mark.slow
def test_kills() -> None:
    assert kills.main(["--runs", "20"]) == 0
