from __future__ import annotations

import re

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    printed = run_example("device_module", configuration)
    name = "ocl" if configuration == "ocl" else "host"
    assert re.match(rf"torch\.{name}: \d+ devices, the current one is 0\n", printed)
    assert len(re.findall(rf"\.{name}\(\) +{name}:0", printed)) == 5
    assert printed.endswith("bytes of every dtype come back as they were\n")
