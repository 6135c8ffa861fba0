"""`gradcheck` in float64 of every entry with a gradient, and of every differentiable family."""

import warnings

import pytest
import torch

from torch_outboard import fallback, placement
from torch_outboard.ops import tables
from torch_outboard.scoreboard.findings import EntryResult, Limits

# Families whose operators have no derivative, or whose results carry none to check.
NOT_DIFFERENTIABLE = {
    "pointwise_lists": "steps of optimizers",
    "random": "what is drawn does not depend on an argument by a difference",
}
# The operator database has no entry with kernels of these; their own tests call gradcheck.
TESTED_BY_HAND = {"recurrent": "tests/device_kernels/products/test_recurrent.py"}
# On which dtypes a kernel has to have run to count as checked.
COMPUTED = (torch.float64, torch.complex128)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_entry(device: torch.device) -> None:
    from torch_outboard.scoreboard.suites import derivatives  # takes seconds

    fallback.set_policy(copied="allow")
    warnings.simplefilter("ignore")  # CPU gives the same ones
    known = tables.families()
    seen: set[str] = set()
    wrong = []
    for name in derivatives.entries("float64"):
        result = EntryResult(only=frozenset({"gradcheck"}))
        with placement.use("device"), fallback.report() as report:
            op = derivatives.operator(name)
            derivatives.check_entry(op, torch.float64, device, result, Limits())
        wrong += [(name, failure) for failure in result.failures]
        if result.samples and not result.failures:
            seen |= {
                known[row.op]
                for row in report.rows
                if row.placement == "device" and row.dtype in COMPUTED and row.op in known
            }
    assert not wrong
    assert set(known.values()) - set(NOT_DIFFERENTIABLE) - set(TESTED_BY_HAND) <= seen
