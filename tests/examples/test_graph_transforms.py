from __future__ import annotations

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    lines = run_example("graph_transforms", configuration).splitlines()
    name = "ocl" if configuration == "ocl" else "host"
    assert lines == [
        f"fake: (1048576, 1048576) on {name}:0",
        f"torch.func: gradients of each row on {name}:0",
        "functionalized: ['aten.clone.default', 'aten.add.Tensor', 'aten.mul.Tensor']",
        "counted: 96 operations",
        "saved on the host, and computed again: the same gradients",
        "anomaly: Function 'SqrtBackward0' returned nan values in its 0th output.",
    ]
