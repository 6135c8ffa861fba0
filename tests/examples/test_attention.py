"""A maker's attention: chosen in every order of loading, with masks and their gradients."""

from __future__ import annotations

import pytest

from tests.examples.running import ROOT, everywhere, run, run_example

pytestmark = pytest.mark.by_turns(6)

SOURCE = ROOT / "examples" / "attention" / "attention.cpp"


@pytest.mark.slow
@everywhere
def test_example(configuration):
    lines = run_example("attention", configuration).splitlines()
    assert [line.rpartition("  ")[2].strip() for line in lines[:4]] == [
        "the maker's",
        "the maker's",
        "torch_outboard's",
        "PyTorch's, of matrix products",
    ]
    assert lines[-1].startswith("loss of a layer ")


ORDERS = """
import sys
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.cpp_extension import load

source, order = sys.argv[1:]
torch.manual_seed(0)
inputs = [torch.randn(2, 3, n, 8) for n in (5, 7, 7)]
if order != "before the kit":
    import torch_outboard
if order == "after use":
    scaled_dot_product_attention(*(t.to(torch_outboard.device_name()) for t in inputs))
load("attention_example", [source], is_python_module=False)
import torch_outboard

def attention(device, mask):
    tensors = [t.detach().to(device).requires_grad_() for t in (*inputs, mask)]
    result = scaled_dot_product_attention(*tensors[:3], attn_mask=tensors[3])
    result.square().sum().backward()
    return [result, *(t.grad for t in tensors if t.grad is not None)]

device = torch_outboard.device_name()
for mask in (torch.randn(2, 3, 5, 7), torch.randn(5, 7), torch.randn(2, 1, 1, 7)):
    found, expected = attention(device, mask), attention("cpu", mask)
    torch.testing.assert_close(found, expected, check_device=False, rtol=1e-4, atol=1e-5)
    assert len(found) == 5
with torch.profiler.profile() as profile:
    mask = torch.rand(5, 7).gt(0.3).to(device)
    scaled_dot_product_attention(*(t.to(device) for t in inputs), mask)
names = {event.key for event in profile.key_averages()}
print("aten::_scaled_dot_product_fused_attention_overrideable" in names)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["before the kit", "after the kit", "after use"])
@everywhere
def test_orders_of_loading_and_masks(tmp_path, order, configuration):
    program = tmp_path / "program.py"
    program.write_text(ORDERS)
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if order == "before the kit" else {}
    assert run(program, configuration, str(SOURCE), order, **autoload) == "True\n"
