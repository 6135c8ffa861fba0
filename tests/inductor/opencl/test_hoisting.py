"""Statements that are moved before the loops of a kernel."""

from __future__ import annotations

import re

import torch

from tests.inductor.support import check, kernels_of, moved
from torch_outboard import _C
from torch_outboard.inductor.opencl.hoisting import hoist

LOOP = """
for (; end - x >= 16; x += 16) {
    const float16 tmp0_16 = ob_load_float16(a, x);
    const float tmp1 = ob_load_float(b, 0);
    const float tmp2 = ob_pow_float(tmp1, 0.9f);
    const float16 tmp3_16 = (tmp0_16 * ((float16)(tmp2)));
    ob_store_float16(c, x, tmp3_16);
}
"""
BUFFERS = {"a": "arg0", "b": "arg1", "c": "buf0"}


def test_a_costly_statement_and_what_it_needs_go_before():
    before, rest = hoist(LOOP, BUFFERS, [])
    assert before.splitlines() == [
        "const float tmp1 = ob_load_float(b, 0);",
        "const float tmp2 = ob_pow_float(tmp1, 0.9f);",
    ]
    assert "ob_pow" not in rest
    assert rest.count("tmp2") == 1


def test_the_same_statement_of_several_loops_goes_once():
    before, rest = hoist(LOOP + LOOP, BUFFERS, [])
    assert before.count("ob_pow") == 1
    assert "ob_pow" not in rest


def test_what_stays():
    for changed in (
        LOOP.replace("(b, 0)", "(b, x)"),  # another place with each turn
        LOOP.replace("(tmp1, 0.9f)", "(tmp1, y)"),
        LOOP.replace("ob_pow_float(tmp1, 0.9f)", "(tmp1 + 0.9f)"),  # cheap
        LOOP.replace("ob_store_float16(c", "ob_store_float16(b"),
        LOOP.replace("ob_store_float16(c", "ob_atomic_add_float16(b"),
    ):
        assert hoist(changed, BUFFERS, []) == ("", changed)
    # Another name for what is written.
    assert hoist(LOOP, {**BUFFERS, "c": "arg1"}, []) == ("", LOOP)
    # One name, two values.
    twice = LOOP + LOOP.replace("0.9f", "0.8f")
    assert hoist(twice, BUFFERS, []) == ("", twice)
    # A parameter that is a number is the same with each turn.
    assert "y" in hoist(LOOP.replace("(tmp1, 0.9f)", "(tmp1, y)"), BUFFERS, ["y"])[0]


def vectors_with_powers(code: str) -> int:
    loops = re.findall(r"for \(; [^\n]*\+= 16\) \{.*?\n +\}\n", code, re.DOTALL)
    return sum("ob_pow_" in loop for loop in loops)


def test_a_step_of_adam(device: torch.device):
    parameter = torch.ones(1000, device=device, requires_grad=True)
    expected = torch.ones(1000, requires_grad=True)
    parameter.grad, expected.grad = torch.ones_like(parameter), torch.ones(1000)
    optimizer, reference = torch.optim.AdamW([parameter]), torch.optim.AdamW([expected])
    code = kernels_of(optimizer.step)
    assert "ob_pow_" in code
    if _C.device_properties(0).kind == "cpu":
        assert vectors_with_powers(code) == 0
    reference.step()
    torch.testing.assert_close(parameter.detach().cpu(), expected.detach())


def test_a_value_that_the_kernel_changes(device: torch.device):
    def function(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scale.mul_(0.5)
        return x * scale.exp(), (x + scale).sum(), x / scale.exp().sin()

    x, scale = torch.randn(70, 90), torch.tensor(1.5)
    ours = moved((x, scale), device)
    actual = torch.compile(function)(*ours)
    expected = function(x, scale)
    torch.testing.assert_close(moved(actual, "cpu"), expected)
    torch.testing.assert_close(ours[1].cpu(), scale)


def test_scalars_of_the_device_and_of_the_host(device: torch.device):
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x * torch.pow(a, 1.5) + x.sum(1, keepdim=True) * b.exp()

    check(function, torch.randn(40, 300), torch.tensor(2.5), torch.tensor([0.5]), device=device)
    x, a = torch.randn(40, 300), torch.tensor(2.5)
    actual = torch.compile(function)(x.to(device), a, torch.tensor([0.5]).to(device))
    torch.testing.assert_close(actual.cpu(), function(x, a, torch.tensor([0.5])))
