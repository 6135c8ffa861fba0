"""Exclusions of the tests of PyTorch's wheel (`python -m tests.distributed.wheel_tests`)."""

from tests.distributed.wheel.exclusions import EXCLUSIONS
from tests.distributed.wheel_tests import without_excluded
from torch_outboard.scoreboard.answers import Answer


def test_exclusions_that_hold_and_needless_ones() -> None:
    always = next(e for e in EXCLUSIONS if e.always and e.test == "test_get_backend")
    failure = {"check": "failed", "reason": "AssertionError: String comparison failed: x"}
    assert without_excluded(Answer(always.test, "fail", failures=[failure])).status == "excluded"
    other = {"check": "failed", "reason": "AssertionError: something else"}
    assert without_excluded(Answer(always.test, "fail", failures=[other])).status == "fail"
    assert without_excluded(Answer(always.test, "hang", failures=[failure])).status == "hang"
    needless = without_excluded(Answer(always.test, "pass"))
    assert needless.status == "fail"
    assert "needless" in needless.failures[0]["reason"]
    sometimes = next(e for e in EXCLUSIONS if not e.always)
    assert without_excluded(Answer(sometimes.test, "pass")).status == "pass"
