from __future__ import annotations

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    lines = [line.split() for line in run_example("schema_drift", configuration).splitlines()]
    unused = [line for line in lines if line[-2:] == ["never", "called"]]
    assert [line[1:4] for line in unused if line[2] == "user"] == [["removed", "user", "boxed"]]
