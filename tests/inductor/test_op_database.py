"""A slice of the operator database, compiled; all of it: `python -m tests.inductor.sweep`."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.inductor.checks import check_entry
from tests.inductor.sweep import BAD
from tests.turns import is_its_turn

BY_NAME = {op.full_name: op for op in op_db if torch.float32 in op.dtypes}
ALWAYS = "special.i1e"  # a special function, with its derivative
IN_TURN = [name for name in BY_NAME if name != ALWAYS and is_its_turn(f"compiled {name}", 250)]


@pytest.mark.parametrize("name", [ALWAYS, *IN_TURN])
def test_entry(name: str, device: torch.device):
    answer = check_entry(BY_NAME[name], torch.float32, device, dynamic=False, count=1)
    assert answer["status"] not in BAD, answer["reasons"]
    assert answer["status"] == "right" or name != ALWAYS
