"""Indices out of range, in the kernels of the host."""

from __future__ import annotations

import pytest

from tests.index_probes import PROBES, WRONG, disagreement
from torch_outboard import fallback


@pytest.mark.separate
def test_wrong_indices_are_raised(device):
    wrong = []
    with fallback.policy(copied="allow"):
        for probe in PROBES:
            if probe.follows:
                continue  # PyTorch's own kernel, which follows them
            for index in probe.wrong(WRONG[::6]):
                if (found := disagreement(probe, index, device)) is not None:
                    wrong.append(found)
    assert not wrong, f"{len(wrong)}: " + "; ".join(wrong[:20])
