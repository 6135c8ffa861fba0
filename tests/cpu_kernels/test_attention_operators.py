"""Attention: the operator that is taken is that of CPU; those of CUDA agree with meta functions."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from torch_outboard.scoreboard.comparison.differences import tree_difference

aten = torch.ops.aten
QUERIES, KEYS, SIZE = 36, 40, 20

ORDERS = {
    "contiguous": lambda *sizes: torch.randn(sizes),
    # As linear layers leave it: (batch, rows, heads, elements) in memory.
    "rows first": lambda b, h, n, d: torch.randn(b, n, h, d).transpose(1, 2),
}


def operands(order: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [ORDERS[order](2, 4, rows, SIZE) for rows in (QUERIES, KEYS, KEYS)]


def check(operator: Any, backward: Any, device: torch.device, args: Any, gradients: Any) -> None:
    """`gradients`: makes arguments of `backward` from those of the call and its results."""
    outcomes = []
    for location in (torch.device("meta"), device):
        moved = [t.to(location) if isinstance(t, torch.Tensor) else t for t in args]
        results = operator(*moved)
        outcomes.append((results, backward(*gradients(moved, results))[:3]))
    assert tree_difference(*outcomes, device, values="undefined") is None
    said, real = ([r for r in results if isinstance(r, int)] for results, _ in outcomes)
    assert real == said


@pytest.mark.parametrize("kind", ["masked", "causal"])
@pytest.mark.parametrize("order", ORDERS)
def test_efficient(device: torch.device, order: str, kind: str) -> None:
    mask = torch.randn(2, 4, QUERIES, KEYS) if kind == "masked" else None
    causal = kind == "causal"
    args = [*operands(order), mask, True, 0.0, causal]

    def gradients(args: Any, results: Any) -> list[Any]:
        output, *rest = results
        wanted = [True] * 3 + [False]
        return [torch.ones_like(output), *args[:4], output, *rest, 0.0, wanted, causal]

    forward = aten._scaled_dot_product_efficient_attention.default
    backward = aten._scaled_dot_product_efficient_attention_backward.default
    check(forward, backward, device, args, gradients)


@pytest.mark.parametrize("order", ORDERS)
def test_flash(device: torch.device, order: str) -> None:
    def gradients(args: Any, results: Any) -> list[Any]:
        output, logsumexp, none, _, queries, keys, seed, offset, _ = results
        rest = [output, logsumexp, none, none, queries, keys, 0.0, True, seed, offset]
        return [torch.ones_like(output), *args[:3], *rest]

    forward = aten._scaled_dot_product_flash_attention.default
    backward = aten._scaled_dot_product_flash_attention_backward.default
    check(forward, backward, device, [*operands(order), 0.0, True], gradients)


@pytest.mark.separate
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["efficient", "flash"])
def test_values_and_gradients(device: torch.device, name: str, dtype: torch.dtype) -> None:
    made = []
    for location in ("cpu", device):
        leaves = [t.to(location, dtype).requires_grad_() for t in operands("rows first")]
        if location == "cpu":
            output = scaled_dot_product_attention(*leaves, is_causal=True)
        elif name == "efficient":
            operator = aten._scaled_dot_product_efficient_attention
            output = operator(*leaves, None, True, is_causal=True)[0]
        else:
            output = aten._scaled_dot_product_flash_attention(*leaves, is_causal=True)[0]
        made.append([output, *torch.autograd.grad(output.square().sum(), leaves)])
    for want, got in zip(*made, strict=True):
        # Sums are kept in float, also those of float64.
        near = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {}
        assert_close(got.cpu(), want, **near)


def test_no_sums_without_need(device: torch.device) -> None:
    q, k, v = (t.to(device) for t in operands("contiguous"))
    operator = aten._scaled_dot_product_efficient_attention
    output, sums, seed, offset = operator(q, k, v, None, False)
    assert sums.shape == (2, 4, 0)
    with pytest.raises(RuntimeError, match="compute_log_sumexp=True"):
        aten._scaled_dot_product_efficient_attention_backward(
            output, q, k, v, None, output, sums, seed, offset, 0.0, [True, True, True, False]
        )


def test_choice(device: torch.device) -> None:
    """Of the operator that scaled_dot_product_attention takes."""

    def chosen(location: torch.device | str, **options: Any) -> int | str:
        tensors = [torch.ones(2, 2, 4, 8, device=location) for _ in range(3)]
        try:
            scaled_dot_product_attention(*tensors, **options)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return torch._fused_sdp_choice(*tensors, **options)

    for options in ({}, {"is_causal": True}, {"dropout_p": 0.5}):
        for backends in (
            [SDPBackend.MATH],
            [SDPBackend.FLASH_ATTENTION],
            [SDPBackend.EFFICIENT_ATTENTION],
            [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
            [SDPBackend.FLASH_ATTENTION, SDPBackend.OVERRIDEABLE],
        ):
            with sdpa_kernel(backends):
                assert chosen(device, **options) == chosen("cpu", **options), (backends, options)
