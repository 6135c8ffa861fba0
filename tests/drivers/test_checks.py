"""The checks of `python -m torch_outboard check` on each configuration of each driver.

They run in this process; tests/check has what runs them in processes. Those of training and of
large copies need more than a table, or more memory than the drivers have here.
"""

import pytest
from driver_support import CONFIGURATIONS, DriverUnderTest

from torch_outboard.check.catalog import Check, all_checks, perform
from torch_outboard.check.outcome import Verdict

LARGE = ("transfers.of_64_mebibytes", "transfers.of_2_gibibytes")
CHECKS = [
    each for each in all_checks().values() if each.group != "training" and each.name not in LARGE
]


@pytest.mark.parametrize("each", CHECKS, ids=lambda each: each.name)
def test_check(driver: DriverUnderTest, each: Check) -> None:
    if each.direct_only and "delay_us" in CONFIGURATIONS.get(driver.configuration, {}).get(
        "OUTBOARD_FAULTS", ""
    ):
        pytest.skip("delayed work would not change it, or take minutes")
    outcome = perform(each, driver, "direct")
    if outcome.verdict in (Verdict.NOT_OFFERED, Verdict.NOT_TESTABLE):
        driver.skipped = True
        pytest.skip(outcome.reason)
    assert outcome.verdict == Verdict.PASSED, outcome
