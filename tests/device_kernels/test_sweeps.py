"""A slice of the sweeps of device kernels that `make test` leaves out (`scoreboard`)."""

import pytest

from tests.turns import number_of, turn
from torch_outboard.scoreboard.answers import is_bad
from torch_outboard.scoreboard.worker import Settings, WorkerProcess

# How many of all overloads, or entries; every turn has its own.
SLICE = {"arguments": 4, "layouts": 2, "refusals": 4}


@pytest.mark.by_turns(2)
def test_some_entries() -> None:
    worker = WorkerProcess(Settings(access="shared", placement="device"))
    try:
        for suite, count in SLICE.items():
            names = worker.entries(suite)
            entries = sorted(names, key=lambda name: number_of(f"{turn()} {name}"))
            for entry in entries[:count]:
                answer = worker.check(suite, entry)
                assert not is_bad(answer), (suite, entry, answer.failures)
    finally:
        worker.close()
