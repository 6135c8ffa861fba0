"""Distributed tests of the wheel that CPU passes by Gloo and the device does not, with reasons.

An exclusion that hides no failure any more fails the test that it names, so this table cannot
outlive its reasons.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """A test that may fail.

    Args:
        test: its name.
        failure: a regular expression that the text of the failure contains; others are not hidden.
        reason: why it is right, or unavoidable, that it fails.
        always: it cannot pass by chance, so that the exclusion is needless where it does.
    """

    test: str
    failure: str
    reason: str
    always: bool = True

    def hides(self, failure: str) -> bool:
        return re.search(self.failure, failure) is not None


WAITS_ON_THE_STREAM = (
    "the test asks whether the work is done right after `wait()`, which lets the stream wait and "
    "not the host; it leaves NCCL out for the same reason"
)
GLOO_BY_NAME = (
    "PyTorch's frontend takes no backend for it that is not named gloo; "
    "`new_group(backend='gloo')` gives a group that it takes"
)

EXCLUSIONS = (
    *(
        Exclusion(test, r"is_completed\(\)\)[^|]*AssertionError: False is not true",
            WAITS_ON_THE_STREAM, always=False)
        for test in (
            "test_irecv", "test_isend", "test_isend_autograd_profiler", "test_isend_torch_profiler",
        )
    ),
    *(
        Exclusion(test, "monitored_barrier is only implemented for GLOO backend", GLOO_BY_NAME)
        for test in (
            "test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup",
            "test_monitored_barrier_failure_order", "test_monitored_barrier_wait_all_ranks",
        )
    ),
    Exclusion(
        "test_get_backend", "String comparison failed",
        "the test expects the group's backend to be the one that its decorators ask for, gloo",
    ),
    Exclusion(
        "test_ddp_logging_data_cpu", "String comparison failed: 'custom'",
        "PyTorch calls every backend from outside 'custom' in this record; the times that are "
        "compared before are there",
    ),
)  # fmt: skip


def exclusion_of(test: str) -> Exclusion | None:
    return next((exclusion for exclusion in EXCLUSIONS if exclusion.test == test), None)
