from __future__ import annotations

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    printed = run_example("dispatch_trace", configuration)
    way = {"shared": "shared", "separate": "copied", "ocl": "device"}[configuration]
    assert printed.splitlines()[-1] == f"2 products of matrices, by {way}"
    assert "AddmmBackward0" in printed
    assert "AutogradPrivateUse1 > PrivateUse1" in printed
