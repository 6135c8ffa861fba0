"""How the tests of PyTorch's wheel are judged (`python -m tests.distributed.wheel_tests`)."""

from __future__ import annotations

from tests.distributed.wheel.exclusions import EXCLUSIONS
from tests.distributed.wheel_tests import judged
from tests.opinfo.worker import Answer


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
