"""Exclusions of the tests of PyTorch's wheel (`python -m tests.distributed.wheel_tests`)."""

from tests.distributed.wheel.exclusions import EXCLUSIONS
from tests.distributed.wheel_tests import without_excluded
from tests.opinfo.worker import Answer


def test_exclusions_that_hold_and_needless_ones() -> None:
    always = next(e for e in EXCLUSIONS if e.always and e.test == "test_get_backend")
    failure = {"check": "failed", "reason": "AssertionError: String comparison failed: x"}
    assert without_excluded(Answer(always.test, "wrong", failures=[failure])).status == "excluded"
    other = {"check": "failed", "reason": "AssertionError: something else"}
    assert without_excluded(Answer(always.test, "wrong", failures=[other])).status == "wrong"
    assert without_excluded(Answer(always.test, "timeout", failures=[failure])).status == "timeout"
    needless = without_excluded(Answer(always.test, "right"))
    assert needless.status == "wrong"
    assert "needless" in needless.failures[0]["reason"]
    sometimes = next(e for e in EXCLUSIONS if not e.always)
    assert without_excluded(Answer(sometimes.test, "right")).status == "right"
