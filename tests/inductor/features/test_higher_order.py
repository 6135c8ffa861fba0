"""Operators whose arguments are functions: branches, loops, checkpoints."""

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code
from torch.utils.checkpoint import checkpoint

from tests.inductor.support import check


@pytest.mark.parametrize("compiled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_branch_is_chosen_by_a_tensor(compiled: bool, device: torch.device):
    """Under autocast, whose casts the operators of a branch have, as on CPU."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return torch.cond(
                x.sum() > 0, lambda x: (x @ weight).sin(), lambda x: x @ weight * 2, (x,)
            )

    x, weight = torch.rand(4, 8), torch.randn(8, 8)
    expected = [function(each, weight) for each in (x, -x)]
    torch.compiler.reset()
    chosen = torch.compile(function) if compiled else function
    for each, want in zip((x, -x), expected, strict=True):
        actual = chosen(each.to(device), weight.to(device))
        assert actual.dtype == want.dtype == torch.bfloat16
        torch.testing.assert_close(actual.cpu(), want, rtol=2e-2, atol=2e-2)


@pytest.mark.slow
def test_a_loop_ends_by_a_tensor(device: torch.device):
    from torch._higher_order_ops import while_loop

    def function(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (i, x))

    check(function, torch.tensor(0), torch.rand(7), device=device)


@pytest.mark.slow
def test_scans_and_maps(device: torch.device):
    from torch._higher_order_ops import associative_scan, scan
    from torch._higher_order_ops.map import map as map_function

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            *scan(lambda c, y: (c + y, (c * y).clone()), torch.zeros_like(x[0]), x),
            map_function(lambda a, y: a.sin() + y, x, y),
        )

    # PyTorch's code for them reads the index of a step.
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(function, torch.rand(5, 3), torch.rand(3), device=device)

    def running(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a * b + 1, x, 0, combine_mode="generic")

    x = torch.rand(6, 3)
    torch.testing.assert_close(
        torch.compile(running)(x.to(device)).cpu(), torch.compile(running)(x)
    )


def dropout_block(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x.relu(), 0.4) * 2


def noise_block(x: torch.Tensor) -> torch.Tensor:
    return (x * torch.randn_like(x)).sin()


def rrelu_block(x: torch.Tensor) -> torch.Tensor:
    return F.rrelu(x - 0.5, training=True).sin()


@pytest.mark.slow
@pytest.mark.parametrize("block", [dropout_block, noise_block, rrelu_block])
def test_checkpointing_uses_the_same_numbers_again(block, device: torch.device):
    """Of dropout, which is fused, and of others that run as in eager mode, with several results."""

    # With checkpoints, eager rrelu is wrong on any device.
    def eager(x: torch.Tensor) -> torch.Tensor:
        return block(x).cos() + torch.rand_like(x)

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False).cos() + torch.rand_like(x)

    def results(function) -> list[torch.Tensor]:
        torch.manual_seed(2)
        x = torch.linspace(0, 1, 64).to(device).requires_grad_()
        y = function(x)
        return [y, *torch.autograd.grad(y.sum(), x), torch.rand(3, device=device)]

    for got, want in zip(results(torch.compile(function)), results(eager), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.slow
def test_checkpointing_computes_attention_again(device: torch.device):
    """Its operator is among those that draw, which checkpointing keeps, but draws nothing."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        x = x.view(2, 2, 4, 4)
        return F.scaled_dot_product_attention(x, x.sin(), x.cos(), is_causal=True).flatten()

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(attention, x, use_reentrant=False).cos()

    def gradient(function, device: object) -> torch.Tensor:
        x = torch.linspace(0, 1, 64).to(device).requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0].cpu()

    compiled, codes = run_and_get_code(gradient, torch.compile(function), device)
    torch.testing.assert_close(compiled, gradient(function, "cpu"))
    forward, backward = (code.count("attention_for_cpu.default(") for code in codes)
    assert (forward, backward) == (1, 1), "kept, or computed another time"
