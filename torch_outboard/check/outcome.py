"""Results of checks, and the exceptions by which a check ends early."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Verdict(enum.Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    # The driver lacks an optional function.
    NOT_OFFERED = "not offered"
    # This driver, device or machine cannot show it; the reason is said.
    NOT_TESTABLE = "not testable"


class Failed(Exception):
    """The driver does other than the header says.

    Args:
        expected: what the header leads to expect here.
        got: what came.
        function: of the table, if it is another than the check's first.
        says: a sentence of the header, if it is another than the check's.
        advice: what to do next, if it is something else than the check's.
    """

    def __init__(
        self,
        expected: str,
        got: str,
        *,
        function: str | None = None,
        says: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected, self.got = expected, got
        self.function, self.says, self.advice = function, says, advice


class NotOffered(Exception):
    """The driver lacks this optional function."""


class NotTestable(Exception):
    """The reason why a check cannot tell."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check in one run.

    Attributes:
        check: group and name, such as `"memory.sizes"`.
        run: `"direct"`, or `"faults"` behind fault injection and validation.
        verdict: how it ended.
        seconds: how long it took.
        reason: why it is not offered or not testable.
        function: the function of the table that failed.
        says: the sentence of the header.
        expected: what should have come.
        got: what came instead.
        advice: what to do next.
    """

    check: str
    run: str
    verdict: Verdict
    seconds: float = 0.0
    reason: str = ""
    function: str = ""
    says: str = ""
    expected: str = ""
    got: str = ""
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON takes them."""
        return asdict(self) | {"verdict": self.verdict.value, "seconds": round(self.seconds, 3)}
