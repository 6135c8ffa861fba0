from __future__ import annotations

import re

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    printed = run_example("kernels_needed", configuration)
    assert re.match(r"\d+ overloads of ATen; \d+ need a kernel on a new device:", printed)
    assert ("device kernel here" in printed) == (configuration == "ocl")
    assert "aten::add.out, which brings 2 others" in printed
