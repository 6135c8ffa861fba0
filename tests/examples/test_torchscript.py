from __future__ import annotations

import re

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    printed = run_example("torchscript", configuration)
    name = "ocl" if configuration == "ocl" else "host"
    places = re.findall(r"^(\w+) +on (\S+):", printed, re.MULTILINE)
    device = f"{name}:0"
    assert places == [
        ("scripted", device), ("traced", device), ("frozen", device),
        ("loaded", "cpu"), ("loaded", device),
    ]  # fmt: skip
    assert "'aten::_convolution', 'aten::batch_norm', 'aten::relu', 'aten::flatten'" in printed
