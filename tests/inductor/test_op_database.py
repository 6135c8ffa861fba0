"""A slice of the operator database, compiled; all of it: `python -m tests.inductor.sweep`."""

from __future__ import annotations

import pytest
import torch

from tests.inductor.checks import check_entry, entry_name

# One of a kind: reductions in several passes, masks, indices, integers, special functions, draws.
ENTRIES = """
var_mean nn.functional.pad.reflect index_put floor_divide special.i1e logcumsumexp bernoulli
"""


@pytest.mark.parametrize("name", ENTRIES.split())
def test_entry(name: str, device: torch.device):
    from torch.testing._internal.common_methods_invocations import op_db

    (op,) = [op for op in op_db if entry_name(op) == name]
    answer = check_entry(op, torch.float32, device, dynamic=False, count=1)
    assert answer["status"] == "right", answer["reasons"]
