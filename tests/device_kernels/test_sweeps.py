"""A slice of the sweeps of device kernels that `make test` leaves out (`tests.opinfo.sweep`)."""

import pytest

from tests.opinfo.worker import ARGUMENTS, LAYOUTS, REFUSALS, WorkerProcess
from tests.turns import number_of, turn

# How many of all overloads, or entries; every turn has its own.
SLICE = {ARGUMENTS: 4, LAYOUTS: 2, REFUSALS: 4}


@pytest.mark.by_turns(2)
def test_some_entries() -> None:
    worker = WorkerProcess("", "shared", placement="device")
    try:
        for sweep, count in SLICE.items():
            names = worker.entries(sweep)
            entries = sorted(names, key=lambda name: number_of(f"{turn()} {name}"))
            for entry in entries[:count]:
                answer = worker.check(entry, sweep)
                allowed = ("right", "excluded", "not runnable")
                assert answer.status in allowed, (sweep, entry, answer.failures)
    finally:
        worker.close()
