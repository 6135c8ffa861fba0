"""torch_outboard.kernel with whole kernels in OpenCL C."""

from __future__ import annotations

import pytest
import torch

import torch_outboard
from tests.device_kernels.conftest import ways_of
from torch_outboard import Launch, fallback

DELAY = """
__kernel void delay(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  out_store(i, i >= by ? x_load(i - by) : 0);
}
"""


@pytest.fixture(scope="module")
def delay_operator():
    with torch.library._scoped_library("outboard_templates", "DEF") as library:
        library.define("delay(Tensor x, int by) -> Tensor")
        yield torch.ops.outboard_templates.delay


def register(**changes):
    description = {
        "source": DELAY,
        "launches": Launch("delay", items="numel(out)"),
        "numbers": {"by": "by"},
        "conditions": ["by >= 0"],
        **changes,
    }
    return torch_outboard.kernel("outboard_templates::delay", **description)


def test_operator_of_a_library(device, delay_operator):
    x = torch.randn(3, 7)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        y = x.mul(9).to(dtype)
        with register(), fallback.report() as report:
            result = delay_operator(y.to(device).t(), 2)
        flat = y.t().flatten()
        expected = torch.cat([torch.zeros(2, dtype=dtype), flat[:-2]]).view(7, 3)
        torch.testing.assert_close(result.cpu(), expected)
        assert ways_of(report)["outboard_templates::delay"] == "device"


def test_replaces_an_operator_with_all_its_forms(device):
    source = """
    __kernel void softest(OB_PARAMETERS) {
      OB_BEGIN
      OB_ITEM(i)
      out_store(i, self_load(i) / (V)(2));
    }
    """
    x = torch.randn(4, 5, requires_grad=True)
    y = x.detach().to(device).requires_grad_()
    launches = Launch("softest", "numel(out)")
    with torch_outboard.kernel("aten::silu", source=source, launches=launches, like=["self"]):
        result = torch.nn.functional.silu(y)
        torch.testing.assert_close(result.cpu(), x / 2)
        result.sum().backward()
    torch.nn.functional.silu(x).sum().backward()  # the derivative stays PyTorch's
    torch.testing.assert_close(y.grad.cpu(), x.grad)


def test_mistakes_are_named(device, delay_operator):
    with pytest.raises(TypeError, match="need launches="):
        register(launches=None)
    with pytest.raises(ValueError, match="uses 'amount', which is not known"):
        register(numbers={"by": "amount"})
    with pytest.raises(ValueError, match="cannot be read at place"):
        register(numbers={"by": "by +"})
    with pytest.raises(TypeError, match="only with source="):
        torch_outboard.kernel("aten::relu", expression="a", numbers={"by": "1"})
    with register(source=DELAY.replace("x_load", "x_lod")), pytest.raises(RuntimeError) as error:
        delay_operator(torch.ones(3, device=device), 1)
    assert "x_lod" in str(error.value)


def test_properties_that_do_not_exist_are_refused(device, delay_operator):
    for name in ("numers", "condition", "expressions"):
        with pytest.raises(
            ValueError, match=f"property '{name}', which engine 'template' does not"
        ):
            register(**{name: "1"})


def test_negative_numbers_of_work_items_are_refused(device, delay_operator):
    x = torch.ones(3, device=device)
    for launch in (Launch("delay", "0 - 5"), Launch("delay", "numel(out)", repeat="-1")):
        with register(launches=launch), pytest.raises(ValueError, match="negative number of work"):
            delay_operator(x, 1)
    with register(launches=[Launch("delay", "0"), Launch("delay", "numel(out)")]):
        assert delay_operator(x, 1).tolist() == [0, 1, 1]


def test_numbers_beyond_32_bits(device, delay_operator):
    x = torch.ones(3, device=device)
    with register(), fallback.report() as report:
        assert delay_operator(x, 2**32 + 1).tolist() == [0, 0, 0]
    assert ways_of(report)["outboard_templates::delay"] == "device"
    with register(numbers={"by": "by * by"}), pytest.raises((NotImplementedError, RuntimeError)):
        delay_operator(x, 2**40)  # declined, and the operator has no other kernel
