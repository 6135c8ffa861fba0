"""Statements that are moved before the loops of a kernel."""

import re

import torch

from tests.inductor.support import kernels_of, moved
from torch_outboard import _C
from torch_outboard.inductor.kernel.units import hoist

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
    assert rest.count("tmp2") == 1
    # Those of several loops go once.
    once, rest = hoist(LOOP + LOOP, BUFFERS, [])
    assert once == before
    assert "ob_pow" not in rest


def test_what_stays():
    for changed in (
        LOOP.replace("(b, 0)", "(b, x)"),  # another index with each turn
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


def units_with_powers(code: str) -> int:
    """Loops over units of work that take a power with each turn."""
    loops = re.findall(r"(?s)\n( +)(for \(\w+ unit = .*?)\n\1\}", code)
    assert loops
    return sum("ob_pow_" in loop for _, loop in loops)


def test_a_step_of_adam(device: torch.device):
    """Powers of the step count are taken once for a parameter, not for each vector or unit."""
    sizes = (3000, 70, 1000)
    ours = [torch.ones(size, device=device, requires_grad=True) for size in sizes]
    expected = [torch.ones(size, requires_grad=True) for size in sizes]
    for parameter in (*ours, *expected):
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer, reference = torch.optim.AdamW(ours), torch.optim.AdamW(expected)
    code = kernels_of(optimizer.step)
    assert "ob_pow_" in code
    if _C.device_properties(0).kind == "cpu":
        assert units_with_powers(code) == 0
    reference.step()
    for actual, wanted in zip(ours, expected, strict=True):
        torch.testing.assert_close(actual.detach().cpu(), wanted.detach())


def test_scalars_of_the_device_and_of_the_host(device: torch.device):
    """Also one that the kernel changes."""

    def function(
        x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, host: torch.Tensor, scale: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        scale.mul_(0.5)
        changed = x * scale.exp(), (x + scale).sum(), x / scale.exp().sin()
        rows = x * torch.pow(host, 1.5) + x.sum(1, keepdim=True) * b.exp()
        return *changed, rows, x * torch.pow(a, 1.5)

    x, a, b, host, scale = (
        torch.randn(40, 300), torch.tensor(2.5), torch.tensor([0.5]), torch.tensor(3.5),
        torch.tensor(1.5),
    )  # fmt: skip
    ours = moved((x, a, b), device), moved(scale, device)
    actual = torch.compile(function)(*ours[0], host, ours[1])
    expected = function(x, a, b, host, scale)
    torch.testing.assert_close(moved((actual, ours[1]), "cpu"), (expected, scale))
