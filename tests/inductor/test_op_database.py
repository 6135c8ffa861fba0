"""A slice of the operator database, compiled; all of it: `python -m tests.inductor.sweep`."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.inductor.checks import check_entry, entry_name
from tests.inductor.sweep import BAD
from tests.turns import is_its_turn

# One of a kind: reductions in several passes, masks, indices, integers, special functions, draws.
ALWAYS = (
    "var_mean", "nn.functional.pad.reflect", "index_put", "floor_divide", "special.i1e",
    "logcumsumexp", "bernoulli",
)  # fmt: skip
BY_NAME = {entry_name(op): op for op in op_db if torch.float32 in op.dtypes}
IN_TURN = [name for name in BY_NAME if name not in ALWAYS and is_its_turn(f"compiled {name}", 150)]


@pytest.mark.parametrize("name", [*ALWAYS, *IN_TURN])
def test_entry(name: str, device: torch.device):
    answer = check_entry(BY_NAME[name], torch.float32, device, dynamic=False, count=1)
    assert answer["status"] not in BAD, answer["reasons"]
    assert answer["status"] == "right" or name not in ALWAYS
