"""PyTorch's stubs: which operators they serve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.dispatch import stub_probes
from tests.support import run_python
from torch_outboard import _C

SOURCE = (
    Path(__file__).resolve().parents[2] / "csrc" / "dispatch" / "external" / "stub_operators.cpp"
)


def test_stubs_and_operators_of_the_table_exist():
    table = _C.stub_operators()
    overloads = {o for row in table.values() for o in row.split()}
    missing = [name for name in table if not _C.stub_state(name)[0]]
    missing += [o for o in overloads if not torch._C._dispatch_has_kernel(f"aten::{o}")]
    assert missing == []
    assert _C.stub_state("cpublas::axpy_stub")[:2] == (True, False)
    assert _C.stub_state("no_such_stub") == (False, False, False, "")


@pytest.mark.slow
def test_the_table_is_what_pytorch_does():
    code = """
        import json, torch, torch_outboard
        from tests.dispatch import stub_probes
        found = stub_probes.find(torch.device(torch_outboard.device_name(), 0))
        print(json.dumps({stub: sorted(names) for stub, names in found.items()}))
    """
    env = {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_CLANG": "none"}
    root = str(SOURCE.parents[3])
    printed = run_python(code, timeout=900, PYTHONPATH=root, **env).splitlines()[-1]
    found = {stub: set(names) for stub, names in json.loads(printed).items()}
    assert stub_probes.as_source(found) == SOURCE.read_text()
