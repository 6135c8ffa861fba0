"""A maker's autocast policies, whenever the library that has them is loaded."""

from __future__ import annotations

import pytest

from tests.examples.running import ROOT, everywhere, run, run_example

pytestmark = pytest.mark.by_turns(6)

SOURCE = ROOT / "examples" / "autocast" / "policies.cpp"


@pytest.mark.slow
@everywhere
def test_example(configuration):
    lines = run_example("autocast", configuration).splitlines()
    assert lines[2].split() == ["erf,", "KERNEL_PRIVATEUSEONE", "torch.float32"]
    assert lines[-1].startswith("loss 21.8")


ORDERS = """
import sys
import torch
from torch.utils.cpp_extension import load

source, order = sys.argv[1:]
if order != "before the kit":
    import torch_outboard
if order == "after use":
    torch.ones(2, device=torch_outboard.device_name()).add(1)
load("autocast_example", [source], is_python_module=False)
import torch_outboard

device = torch_outboard.device_name()
x = torch.ones(4, 4, device=device, dtype=torch.float16)
with torch.autocast(device, dtype=torch.bfloat16):
    print(torch.erf(x).dtype, torch.mm(x, x).dtype, torch.exp(x).dtype, x.neg().dtype,
          torch.ops.autocast_example.scaled_product(x, x, 1.0).dtype)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["before the kit", "after the kit", "after use"])
def test_orders_of_loading(tmp_path, order):
    """A fallback and policies of a maker's are kept, and PyTorch warns of no override."""
    program = tmp_path / "program.py"
    program.write_text(ORDERS)
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if order == "before the kit" else {}
    printed = run(program, "shared", str(SOURCE), order, PYTHONWARNINGS="error", **autoload)
    dtypes = ["float32", "bfloat16", "float32", "float16", "bfloat16"]
    assert printed.split() == [f"torch.{dtype}" for dtype in dtypes]
