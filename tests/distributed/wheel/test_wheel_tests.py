"""A slice of the distributed tests that PyTorch's wheel brings, and how they are run and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.distributed.wheel.exclusions import EXCLUSIONS, Exclusion
from tests.distributed.wheel_tests import Worker, judged, last_line, scoreboard
from tests.opinfo.worker import Answer

# Of each kind of communication one, and a model.
SLICE = (
    "test_all_reduce_full_group_max", "test_broadcast", "test_DistributedDataParallelCPU",
    "test_send_recv_any_source",
)  # fmt: skip
SLOW_SLICE = (
    "test_all_gather_object_default_pg", "test_all_reduce_sum_complex", "test_gather",
    "test_reduce_sum", "test_scatter_full_group",
)  # fmt: skip


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker("device", "", os.environ.get("OUTBOARD_HOST_ACCESS", "shared"), timeout=120)
    yield made
    made.close()


@pytest.mark.by_turns(3)
@pytest.mark.separate
@pytest.mark.parametrize(
    "test", [*SLICE, *(pytest.param(test, marks=pytest.mark.slow) for test in SLOW_SLICE)]
)
def test_slice(worker: Worker, test: str) -> None:
    answer = worker.run(test)
    assert answer.status == "right", answer.failures


def test_exclusions_name_tests(worker: Worker) -> None:
    """Each once, and no test of the slice."""
    names = [exclusion.test for exclusion in EXCLUSIONS]
    assert set(names) <= set(worker.names())
    assert len(set(names)) == len(names)
    assert not set(names) & {*SLICE, *SLOW_SLICE}


def test_judgement() -> None:
    always = next(e for e in EXCLUSIONS if e.always and e.test == "test_get_backend")
    failure = {"check": "failed", "reason": "AssertionError: String comparison failed: x"}
    assert judged(Answer(always.test, "wrong", failures=[failure])).status == "excluded"
    other = {"check": "failed", "reason": "AssertionError: something else"}
    assert judged(Answer(always.test, "wrong", failures=[other])).status == "wrong"
    assert judged(Answer(always.test, "timeout", failures=[failure])).status == "timeout"
    needless = judged(Answer(always.test, "right"))
    assert needless.status == "wrong"
    assert "needless" in needless.failures[0]["reason"]
    sometimes = next(e for e in EXCLUSIONS if not e.always)
    assert judged(Answer(sometimes.test, "right")).status == "right"
    assert Exclusion("test", "a+", "reason").hides("baa")


def test_reports() -> None:
    reason = "Traceback\n  File ...\nAssertionError: 3 | 4\n\nTo execute this test, run\nthis"
    assert last_line(reason) == "AssertionError: 3 | 4"
    answers = [
        Answer("one", "right"),
        Answer("two", "wrong", failures=[{"check": "failed", "reason": reason}]),
        Answer("three", "excluded", excluded=["because"]),
    ]
    board = scoreboard("host", answers, 7)
    assert "Of 7 tests CPU passes 3 by Gloo; of these 1 are right, 1 excluded" in board
    assert "| two | wrong | AssertionError: 3   4 |" in board
    assert "| three | excluded | because |" in board
