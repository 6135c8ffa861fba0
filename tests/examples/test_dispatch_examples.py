"""Kernels that makers bring in all the ways that PyTorch's guides know."""

from __future__ import annotations

import pytest

from tests.examples.running import ROOT, everywhere, run, run_example, source_file

pytestmark = pytest.mark.by_turns(6)

PRINTED = {
    "kernels_in_cpp": "loaded before: relu [0.0, 2.0], gradient [0.0, 1.0]",
    "structured_operators": "mul.Tensor             user: run.py:22, from the out= form",
    "stubs": "gradient of abs [[-1.0], [1.0]]",
    "fallback": "  the maker's fallback runs fallback_example::third",
    "declining": "a long vector                the next",
    "backward": "  derivative for backward_example::halve is not implemented",
}


@everywhere
def test_kernels_in_python(configuration):
    lines = run_example("kernels_in_python", configuration).splitlines()
    assert lines[0] == "softplus, torch.library.impl       [0.1269, 3.0486]  device"
    assert "relu: user (torch.float32,)" in lines


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("name", PRINTED)
def test_example(name, configuration):
    assert PRINTED[name] in run_example(name, configuration).splitlines()


# ---- Orders of loading

ORDERS = """
import sys
import torch
from torch.utils.cpp_extension import load

name, source, order = sys.argv[1:]
if order != "before":
    import torch_outboard
if order == "late":
    torch.ones(1, device=torch_outboard.device_name())
if order == "registering":
    torch.ones(1, device=torch_outboard.device_name())
    with torch_outboard.registering():
        load(name, [source], is_python_module=False)
else:
    load(name, [source], is_python_module=False)
import torch_outboard

torch_outboard.fallback.set_policy(copied="allow")
x = torch.tensor([-1.0, 2.0]).to(torch_outboard.device_name())
"""
STUBS = """
print(x.abs().tolist(), torch.hypot(x, x).dtype)
states = {stub.name: stub.bound_by for stub in stubs.stubs()}
assert states["abs_stub"].endswith("stubs_example.so"), states["abs_stub"]
assert states["max_pool2d_kernel"] == ""
with torch_outboard.fallback.report() as report:
    x.abs()
print({row.op: row.way for row in report.rows}["aten::abs.out"])
kernel = torch_outboard.registrations("aten::abs")[0]
print(kernel.source, kernel.origin.rpartition("/")[2])
"""
FALLBACK = """
library = torch.library.Library("fallback_example", "DEF")
library.define("third(Tensor x) -> Tensor")
library.impl("third", lambda x: x / 4, "CPU")
print(torch.ops.fallback_example.third(x).tolist())
with torch_outboard.kernel("fallback_example::third")(lambda x: x * 3):
    print(torch.ops.fallback_example.third(x).tolist())
with torch_outboard.fallback.policy(deny=["fallback_example::third"]):
    torch_outboard.kernel("fallback_example::third", dtypes=[])(lambda x: x)
    try:
        torch.ops.fallback_example.third(x)
    except NotImplementedError as error:
        print("denied" in str(error))
"""


def in_order(order: str, name: str, checks: str, configuration: str) -> str:
    # An example's C++ is compiled once for its own test and for these.
    source = ROOT / "examples" / name / f"{name}.cpp"
    script = source_file(f"{name}_orders.py", ORDERS + checks)
    alone = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if order == "before" else {}
    return run(script, configuration, f"{name}_example", str(source), order, **alone)


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("order", ["before", "after", "late"])
def test_stubs_in_every_order(order, configuration):
    checks = "from torch_outboard.dispatch import stubs\n" + STUBS
    assert in_order(order, "stubs", checks, configuration).splitlines() == [
        "[1.0, 2.0] torch.float32",
        "device",
        "maker stubs_example.so",
    ]


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("order", ["before", "after", "registering"])
def test_a_makers_fallback_in_every_order(order, configuration):
    assert in_order(order, "fallback", FALLBACK, configuration).splitlines() == [
        "  the maker's fallback runs fallback_example::third",
        "[-0.25, 0.5]",
        "[-3.0, 6.0]",
        "True",
    ]


@pytest.mark.slow
def test_a_makers_fallback_that_was_not_announced():
    """PyTorch ends the process, and says what to do."""
    with pytest.raises(AssertionError, match="or in a `with torch_outboard"):
        in_order("late", "fallback", FALLBACK, "shared")
