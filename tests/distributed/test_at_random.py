"""Collectives drawn at random, against CPU; and ranks that are killed at random moments."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.distributed import random_collectives
from tests.support import SLOWNESS

pytestmark = [pytest.mark.by_turns(2), pytest.mark.separate]


@pytest.mark.parametrize("way", ["auto", pytest.param("gloo", marks=pytest.mark.slow)])
def test_collectives(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("OUTBOARD_COMMUNICATION", way)
    lines: list[str] = []
    assert random_collectives.run(7, 0, 240, 200 * SLOWNESS, lines.append) == 0, "\n".join(lines)


def test_calls_are_drawn_alike() -> None:
    """By all ranks, and of every kind."""
    calls = [random_collectives.drawn(3, number) for number in range(300)]
    assert calls == [random_collectives.drawn(3, number) for number in range(300)]
    assert {call.kind for call in calls} == set(random_collectives.KINDS)
    assert calls != [random_collectives.drawn(4, number) for number in range(300)]


@pytest.mark.slow
def test_kills() -> None:
    command = [sys.executable, "-m", "tests.distributed.kills", "--runs", "20"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=900 * SLOWNESS, check=False,
        cwd=random_collectives.ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "20 runs, 0 with faults" in result.stdout
