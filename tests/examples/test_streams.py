"""Devices, streams and events through PyTorch's generic classes."""

from __future__ import annotations

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@pytest.mark.slow
@everywhere
def test_example(configuration):
    lines = run_example("streams", configuration).splitlines()
    assert lines[0].startswith("C++: 8 threads, devices: ")
    assert lines[0].endswith("[40000.0]")
    assert lines[2] == "Python: [40000.0], device and stream as before: True"
