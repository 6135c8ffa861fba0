from __future__ import annotations

import pytest

from tests.examples.running import everywhere, run_example

pytestmark = pytest.mark.by_turns(6)


@everywhere
def test_example(configuration):
    lines = run_example("layouts", configuration).splitlines()
    device = "ocl:0" if configuration == "ocl" else "host:0"
    way = {"shared": "shared", "separate": "copied", "ocl": "device"}[configuration]
    assert lines == [
        *(f"{name}: on {device}, its product on {device}" for name in ("coo", "csr", "bsr")),
        *(f"nested, torch.{name}: on {device}, by {way}" for name in ("strided", "jagged")),
        f"quantized: [0, 10, 12, 20] on {device}",
        "sum: [-1.0, 0.0, 0.4, 2.0]",
    ]
