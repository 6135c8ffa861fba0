"""A slice of the operator database, compiled; all of it: `scoreboard --suite compiled`."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.turns import is_its_turn
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites.compiled import check_entry

BY_NAME = {op.full_name: op for op in op_db if torch.float32 in op.dtypes}
ALWAYS = "special.i1e"  # a special function, with its derivative
IN_TURN = [name for name in BY_NAME if name != ALWAYS and is_its_turn(f"compiled {name}", 250)]


@pytest.mark.parametrize("name", [ALWAYS, *IN_TURN])
def test_entry(name: str, device: torch.device):
    result = EntryResult()
    check_entry(BY_NAME[name], torch.float32, device, result, Limits(most=1))
    assert not result.failures
    assert result.samples or name != ALWAYS
