"""A slice of the sweeps of device kernels that `make test` leaves out (`tests.opinfo.sweep`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.opinfo.worker import ARGUMENTS, LAYOUTS, WorkerProcess
from tests.turns import number_of, turn

pytestmark = pytest.mark.by_turns(2)

# How many of all overloads, or entries; every turn has its own.
SLICE = {ARGUMENTS: 4, LAYOUTS: 4}


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess("", "shared", way="device")
    yield process
    process.close()


@pytest.mark.parametrize("sweep", SLICE)
def test_some_entries(worker: WorkerProcess, sweep: str) -> None:
    entries = sorted(worker.entries(sweep), key=lambda name: number_of(f"{turn()} {name}"))
    for entry in entries[: SLICE[sweep]]:
        answer = worker.check(entry, sweep)
        assert answer.status in ("right", "excluded"), (entry, answer.failures)
