"""torch_outboard.kernel with an expression, and with whole kernels, in OpenCL C."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_outboard
from tests.device_kernels.conftest import placements_of
from torch_outboard import Plan, fallback, placement
from torch_outboard.ops.symbolic import SymInt, SymTensor


def test_replaces_an_operator_at_once(device):
    x = torch.linspace(-2, 2, 37, device=device)
    before = torch.tanh(x).cpu()
    with torch_outboard.kernel("aten::tanh", expression="a * C(2) + C(1)"):
        torch.testing.assert_close(torch.tanh(x).cpu(), x.cpu() * 2 + 1)
        with placement.use("host"):  # it is the user's, and not the kit's
            torch.testing.assert_close(torch.tanh(x).cpu(), x.cpu() * 2 + 1)
    torch.testing.assert_close(torch.tanh(x).cpu(), before)


def test_scalars_conditions_and_broadcasting(device):
    x = torch.randn(5, 33)
    with (
        torch_outboard.kernel(
            "aten::leaky_relu", expression="a > C(0) ? a : a * negative_slope * C(10)"
        ),
        torch_outboard.kernel("aten::add.Tensor", expression="a - alpha * b"),
    ):
        got = torch.nn.functional.leaky_relu(x.to(device), 0.1).cpu()
        torch.testing.assert_close(got, torch.where(x > 0, x, x))
        other = torch.randn(5, 1)
        got = torch.add(x.to(device), other.to(device), alpha=3).cpu()
        torch.testing.assert_close(got, x - 3 * other)


def test_every_dtype_of_one_definition(device):
    with torch_outboard.kernel("aten::neg", expression="a * a"):
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64):
            x = torch.arange(-8, 9).to(dtype)
            torch.testing.assert_close(torch.neg(x.to(device)).cpu(), x * x)


def test_dtypes_and_requirements_leave_the_rest_alone(device):
    x = torch.randn(19)
    with torch_outboard.kernel("gelu", expression="a", requires={"approximate": "tanh"}):
        gelu = torch.nn.functional.gelu
        torch.testing.assert_close(gelu(x.to(device), approximate="tanh").cpu(), x)
        torch.testing.assert_close(gelu(x.to(device)).cpu(), gelu(x))
    with torch_outboard.kernel("neg", expression="a", dtypes=[torch.float32]):
        torch.testing.assert_close(torch.neg(x.to(device)).cpu(), x)
        torch.testing.assert_close(torch.neg(x.double().to(device)).cpu(), -x.double())


def test_derivative_of_the_operator_stays(device):
    x = torch.ones(4, device=device, requires_grad=True)
    with torch_outboard.kernel("aten::sin", expression="C(7)"):
        y = torch.sin(x)
        y.sum().backward()
    assert y.tolist() == [7] * 4
    torch.testing.assert_close(x.grad.cpu(), torch.ones(4).cos())


def test_condition_as_result(device):
    x = torch.tensor([-1.0, 0.0, 1.0])
    with torch_outboard.kernel("aten::isposinf", expression="a > C(0)", result="mask"):
        got = torch.isposinf(x.to(device))
    assert got.dtype == torch.bool
    assert got.tolist() == [False, False, True]


def test_what_makes_no_sense(device):
    with pytest.raises(ValueError, match="does not exist"):
        torch_outboard.kernel("aten::no_such_operator", expression="a")
    with pytest.raises(ValueError, match="no argument nothing"):
        torch_outboard.kernel("aten::neg", expression="a", requires={"nothing": 1})
    with (
        torch_outboard.kernel("aten::neg", expression="a") as registration,
        pytest.raises(TypeError, match="is not a Python function"),
    ):
        registration(torch.ones(1))
    with (
        torch_outboard.kernel("aten::neg", expression="a + no_such_thing"),
        pytest.raises(RuntimeError, match="no_such_thing"),
    ):
        torch.neg(torch.ones(3, device=device))
    assert torch.neg(torch.ones(1, device=device)).item() == -1


def test_an_operator_of_ones_own_with_autograd(device):
    @torch.library.custom_op("outboard_expression::cube", mutates_args=(), device_types="cpu")
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x * x * x

    cube.register_autograd(
        lambda ctx, grad: 3 * grad * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    with (
        torch_outboard.kernel("outboard_expression::cube", expression="a * a * a"),
        fallback.report() as report,
    ):
        x = torch.full((3,), 2.0, device=device, requires_grad=True)
        y = cube(x)
        y.sum().backward()
    assert y.tolist() == [8] * 3
    assert x.grad.tolist() == [12] * 3
    assert placements_of(report)["outboard_expression::cube"] == "device"


# ---- Whole kernels in OpenCL C

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


def delay(plan: Plan, x: SymTensor, by: SymInt) -> None:
    plan.require(by >= 0)
    out = plan.result()
    plan.parameters(by=by)
    plan.launch("delay", out.numel())


def register(body=delay, source=DELAY, **properties: Any):
    name = "outboard_templates::delay"
    return torch_outboard.kernel(name, source=source, **properties)(body)


def test_template_for_an_operator_of_a_library(device, delay_operator):
    x = torch.randn(3, 7)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        y = x.mul(9).to(dtype)
        with register(), fallback.report() as report:
            result = delay_operator(y.to(device).t(), 2)
        flat = y.t().flatten()
        expected = torch.cat([torch.zeros(2, dtype=dtype), flat[:-2]]).view(7, 3)
        torch.testing.assert_close(result.cpu(), expected)
        assert placements_of(report)["outboard_templates::delay"] == "device"


def test_as_a_decorator(device, delay_operator):
    @torch_outboard.kernel("outboard_templates::delay", source=DELAY, dtypes=[torch.float32])
    def late(plan, x, by):
        delay(plan, x, by)

    x = torch.arange(4.0, device=device)
    with late:
        assert delay_operator(x, 1).tolist() == [0, 0, 1, 2]
        with pytest.raises(TypeError, match="call the operator"):
            late(x, 1)
        with pytest.raises((NotImplementedError, RuntimeError)):
            delay_operator(x.double(), 1)  # declined, and the operator has no other kernel
    with pytest.raises((NotImplementedError, RuntimeError)):
        delay_operator(x, 1)


def test_a_condition_declines_a_call(device, delay_operator):
    x = torch.arange(4.0, device=device)
    with register(), pytest.raises((NotImplementedError, RuntimeError)):
        delay_operator(x, -1)

    def early(plan, x, by):
        plan.require(by < 0)
        out = plan.result()
        plan.parameters(by=by)
        plan.launch("early", out.numel())

    source = """
    __kernel void early(OB_PARAMETERS) {
      OB_BEGIN
      OB_ITEM(i)
      out_store(i, i - by < ob_items ? x_load(i - by) : 0);
    }
    """
    with register(), register(early, source):
        assert delay_operator(x, 1).tolist() == [0, 0, 1, 2]
        assert delay_operator(x, -1).tolist() == [1, 2, 3, 0]


def test_mistakes_in_templates_are_named(device, delay_operator):
    def unknown(plan, x, amount):
        plan.result()

    def condition(plan, x, by):
        if by >= 0:
            plan.result()

    def no_results(plan, x, by):
        plan.launch("delay", x.numel())

    with pytest.raises(ValueError, match="has no argument 'amount'; it has x, by"):
        register(unknown)
    with pytest.raises(TypeError, match="a symbol has no truth value"):
        register(condition)
    with pytest.raises(ValueError, match=r"test_expression_kernels.py:\d+: .* it has 0 results"):
        register(no_results)
    with pytest.raises(TypeError, match="unexpected keyword argument 'numers'"):
        register(numers="1")
    with pytest.raises(TypeError, match="takes strided only with source="):
        torch_outboard.kernel("aten::relu", expression="a", strided=["self"])
    with register(source=DELAY.replace("x_load", "x_lod")), pytest.raises(RuntimeError) as error:
        delay_operator(torch.ones(3, device=device), 1)
    assert "x_lod" in str(error.value)
    with (
        register(source=DELAY.replace("void delay", "void late")),
        pytest.raises((RuntimeError, ValueError), match="delay"),
    ):
        delay_operator(torch.ones(3, device=device), 1)


def test_dtypes_are_those_of_the_first_operand(device):
    """And not those of the first tensor of the schema."""
    with torch.library._scoped_library("outboard_templates_of_two", "DEF") as library:
        library.define("last(Tensor[] x, Tensor at) -> Tensor")

        @torch_outboard.kernel(
            "outboard_templates_of_two::last",
            source="""
                __kernel void last(OB_PARAMETERS) {
                  OB_BEGIN
                  OB_ITEM(i)
                  out_store(i, x_load(at_load(i)));
                }
            """,
            dtypes=[torch.int64],
            accepts={"x": [torch.float32]},
            compute=torch.float32,
        )
        def last(plan, at, x):
            model = plan.operand("x", x[-1])
            out = plan.result("out", at.shape, model)
            plan.launch("last", out.numel())

        with last:
            x = [torch.arange(3.0, device=device) * by for by in (1, 2)]
            at = torch.tensor([2, 0], device=device)
            assert torch.ops.outboard_templates_of_two.last(x, at).tolist() == [4, 0]


def test_negative_numbers_of_work_items_are_refused(device, delay_operator):
    def launches(*counts):
        def body(plan, x, by):
            plan.result()
            plan.parameters(by=by)
            for items, repeat in counts:
                plan.launch("delay", items if items is not None else x.numel(), repeat=repeat)

        return body

    x = torch.ones(3, device=device)
    for count in ((-5, 1), (None, -1)):
        with (
            register(launches(count)),
            pytest.raises(ValueError, match="negative number of work"),
        ):
            delay_operator(x, 1)
    with register(launches((0, 1), (None, 1), (None, 0))):
        assert delay_operator(x, 1).tolist() == [0, 1, 1]


def test_numbers_beyond_32_bits(device, delay_operator):
    def squared(plan, x, by):
        delay(plan, x, by * by)

    x = torch.ones(3, device=device)
    with register(), fallback.report() as report:
        assert delay_operator(x, 2**32 + 1).tolist() == [0, 0, 0]
    assert placements_of(report)["outboard_templates::delay"] == "device"
    with register(squared), pytest.raises((NotImplementedError, RuntimeError)):
        delay_operator(x, 2**40)  # declined, and the operator has no other kernel
