"""Each lie of a driver is answered by a sentence, where it crashed or was believed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import run_python


def test_every_lie_is_told() -> None:
    printed = run_python(
        "import json, tests.lying_drivers as drivers; print(json.dumps(drivers.run_all()))",
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_ACCESS="shared",
        OUTBOARD_HOST_DEVICES="1",
        OUTBOARD_FAULTS=None,
        PYTHONPATH=str(Path(__file__).parents[1]),
    )
    assert json.loads(printed.splitlines()[-1]) == []
