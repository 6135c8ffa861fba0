"""The example of training in several processes ends well, with a worker killed in between."""

from pathlib import Path

import pytest

from tests.examples.running import ROOT, everywhere, run

pytestmark = pytest.mark.by_turns(6)

EXAMPLE = ROOT / "examples" / "distributed_digits.py"


@pytest.mark.slow
@everywhere
def test_example(configuration: str, tmp_path: Path) -> None:
    options = ("--epochs", "6", "--channels", "8", "--output", str(tmp_path / "output"))
    settings = {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    printed = run(EXAMPLE, configuration, *options, timeout=400, **settings)
    assert "the last worker is killed after epoch 3" in printed
    assert "started again; goes on from the checkpoint before epoch 4" in printed
    for row in ("test accuracy", "time per step", "of it communication", "communication hidden"):
        assert row in printed
