"""Programs on several ranks, for tests."""

import textwrap
from functools import partial
from pathlib import Path

import pytest

from tests.distributed import ranks


@pytest.fixture
def run_ranks(request: pytest.FixtureRequest, tmp_path: Path) -> ranks.Run:
    """`ranks.run_ranks` in a separate folder, behind the module's PROGRAM if it has one."""
    start = getattr(request.module, "PROGRAM", "")

    def run(program: str, **options: float) -> list[str]:
        return ranks.run_ranks(start + textwrap.dedent(program), tmp_path, **options)

    return run


@pytest.fixture
def try_ranks(tmp_path: Path) -> ranks.Run:
    return partial(ranks.try_ranks, folder=tmp_path)
