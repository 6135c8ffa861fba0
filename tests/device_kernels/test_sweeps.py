"""A slice of the sweeps of device kernels over arguments and layouts (`tests.opinfo.sweep`)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.opinfo.arguments.calls import reached
from tests.opinfo.worker import ARGUMENTS, LAYOUTS, WorkerProcess
from tests.run import ROOT

pytestmark = pytest.mark.by_turns(2)

# Whose results or gradients were laid out otherwise than CPU's.
LAID_OUT = """__getitem__ addr fft.rfft mvlgamma.mvlgamma_p_3 nn.functional.group_norm
rsub stack"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess("", "shared", way="device")
    yield process
    process.close()


def check(worker: WorkerProcess, entry: str, dtype: str) -> None:
    answer = worker.check(entry, dtype)
    assert answer.status in ("right", "excluded"), answer.failures


def overloads_of_this_commit(count: int) -> list[str]:
    """Some overloads with device kernels; every commit has its own."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout

    def order(overload: str) -> str:
        return hashlib.sha256(f"{commit}{overload}".encode()).hexdigest()

    return sorted(reached(), key=order)[:count]


@pytest.mark.parametrize("overload", overloads_of_this_commit(4))
def test_arguments(worker: WorkerProcess, overload: str) -> None:
    check(worker, overload, ARGUMENTS)


@pytest.mark.parametrize("entry", LAID_OUT.split())
def test_layouts(worker: WorkerProcess, entry: str) -> None:
    check(worker, entry, LAYOUTS)
