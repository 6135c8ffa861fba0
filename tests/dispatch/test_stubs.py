"""PyTorch's stubs: the list of them, and which operators they serve."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from tests.dispatch import stub_probes
from tests.support import run_python
from torch_outboard import _C
from torch_outboard.commands.main import main
from torch_outboard.dispatch.stubs import stubs

SOURCE = Path(__file__).resolve().parents[2] / "csrc" / "dispatch" / "makers" / "stub_operators.cpp"


def test_every_stub_of_pytorch_is_listed():
    found = {stub.name: stub for stub in stubs()}
    assert len(found) > 400
    assert found["abs_stub"].signature == "void(TensorIteratorBase&)"
    assert found["abs_stub"].operators == ("abs.out",)
    assert found["max_pool2d_kernel"].operators == ()
    assert found["cpublas::axpy_stub"].bound_by == ""
    # The headers that makers compile with declare no others.
    headers = Path(torch.__file__).parent / "include" / "ATen" / "native"
    declared = re.findall(r"(\w+_stub)\)", (headers / "UnaryOps.h").read_text())
    assert len(declared) > 50
    assert set(declared) <= set(found)


def test_operators_of_the_table_exist():
    names = {stub.name for stub in stubs()}
    missing = [name for name in _C.stub_operators() if name not in names]
    overloads = {o for row in _C.stub_operators().values() for o in row.split()}
    missing += [o for o in overloads if not torch._C._dispatch_has_kernel(f"aten::{o}")]
    assert missing == []


def test_command(capsys):
    assert main(["stubs", "hypot", "unpool"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["stub", "bound", "by", "operators", "kernel"]
    names = [line.split()[0] for line in lines[1:]]
    assert names == ["hypot_stub", "max_unpool2d_kernel", "max_unpool3d_kernel"]
    assert "hypot.out" in lines[1]
    assert "only for the CPU" in lines[2]
    assert main(["stubs", "--usable", "max_pool2d_kernel"]) == 1
    assert main(["stubs", "--load", "no_such_library.so"]) == 1
    assert "no_such_library.so" in capsys.readouterr().err


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
