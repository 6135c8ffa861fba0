"""Exclusions of PyTorch's own tests, and the reason that a failing one gives."""

import unittest

import pytest
import torch

from torch_outboard.scoreboard.answers import EXCLUDED, FAIL, PASS, Answer, failure
from torch_outboard.scoreboard.exclusions import OWNERS, Exclusion
from torch_outboard.scoreboard.pytorch_tests.exclusion_table import EXCLUSIONS, MISSED_BY_CPU
from torch_outboard.scoreboard.pytorch_tests.loading import run
from torch_outboard.scoreboard.pytorch_tests.run import is_about, settle_exclusions
from torch_outboard.scoreboard.run import TEST


@pytest.mark.parametrize(
    ("test", "same"),
    [
        ("TestSort.test_stable", True),
        ("TestSort.test_stable_int64", True),
        ("TestSort.test_stabler", False),
        ("TestSort.test", False),
    ],
)
def test_an_entry_stands_for_a_test_of_all_dtypes(test: str, same: bool) -> None:
    assert is_about("TestSort.test_stable", test) is same


def test_each_exclusion_of_the_kit_names_one_test_once() -> None:
    entries = [e.entry for e in EXCLUSIONS]
    assert len(set(entries)) == len(entries)
    for exclusion in EXCLUSIONS:
        assert exclusion.check == TEST
        assert exclusion.owner in OWNERS
        assert exclusion.entry.count(".test_") == 1


@pytest.mark.parametrize(
    ("reason", "fails", "status"),
    [
        ("it is made to fail", True, EXCLUDED),
        ("it is made to fail", False, FAIL),
        (MISSED_BY_CPU, True, EXCLUDED),
        (MISSED_BY_CPU, False, PASS),
    ],
)
def test_an_exclusion_that_hides_nothing_is_an_error_unless_seeds_decide(
    reason: str, fails: bool, status: str
) -> None:
    answer = Answer("TestSort.test_stable", FAIL if fails else PASS, "test_sort", checks=[TEST])
    if fails:
        answer.failures = [failure(TEST, -1, "AssertionError: not close", FAIL)]
    settle_exclusions(answer, [Exclusion("TestSort.test_stable", TEST, reason, "Assertion")])
    assert answer.status == status


@pytest.mark.parametrize(
    ("placement", "of_run", "holds"),
    [("", "device", True), ("device", "device", True), ("device", "auto", False),
     ("host", "host", True), ("host", "device", False)],
)  # fmt: skip
def test_an_exclusion_holds_for_a_placement(placement: str, of_run: str, holds: bool) -> None:
    exclusion = Exclusion("TestSort.test_stable", TEST, "a reason", placement=placement)
    assert exclusion.is_for("", of_run) is holds


def test_a_reason_has_the_greatest_difference() -> None:
    class Comparison(unittest.TestCase):
        def runTest(self) -> None:
            torch.testing.assert_close(torch.zeros(2), torch.tensor([0.0, 0.5]))

    status, reason = run(Comparison())
    assert status == FAIL
    assert reason.startswith("AssertionError: Tensor-likes are not close! Greatest absolute")
    assert "0.5" in reason
