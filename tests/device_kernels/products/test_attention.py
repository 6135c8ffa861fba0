"""Scaled dot-product attention by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback

FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"


def results(device, operands, gradient, **options):
    """Output and gradients on a device."""
    leaves = [t.to(device).detach().requires_grad_() for t in operands]
    moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    out = scaled_dot_product_attention(*leaves, **moved)
    gradients = torch.autograd.grad(out, leaves, gradient.to(device))
    return [out.detach().cpu(), *(g.cpu() for g in gradients)]


def check(device, operands, gradient, **options):
    expected = results("cpu", operands, gradient, **options)
    with fallback.report() as report:
        actual = results(device, operands, gradient, **options)
    ways = ways_of(report)
    assert ways[FORWARD] == ways[f"{FORWARD}_backward"] == "device"
    for want, got in zip(expected, actual, strict=True):
        assert_close(got, want)
        assert got.stride() == want.stride()


def operands_of(sizes, keys, dtype=torch.float32):
    batch, heads, queries, size = sizes
    query = torch.randn(batch, queries, heads, size, dtype=dtype).transpose(1, 2)
    key, value = (torch.randn(batch, heads, keys, size, dtype=dtype) for _ in range(2))
    return [query, key, value], torch.randn(sizes, dtype=dtype)


def test_bfloat16(device):
    """Nearer to the result in float64 than CPU's kernel, which rounds probabilities."""
    operands, gradient = operands_of((2, 2, 70, 20), 70, torch.bfloat16)
    exact = results("cpu", [t.double() for t in operands], gradient.double(), is_causal=True)
    known = results("cpu", operands, gradient, is_causal=True)
    actual = results(device, operands, gradient, is_causal=True)
    for want, cpu, got in zip(exact, known, actual, strict=True):
        assert (got - want).abs().max() <= 1.1 * (cpu - want).abs().max()


@pytest.mark.parametrize("keys", [70, 30, 150])
def test_causal(device, keys):
    check(device, *operands_of((1, 2, 70, 20), keys), is_causal=True, scale=0.3)


@pytest.mark.parametrize("sizes", [(2, 1, 1, 90), (90,), (1, 3, 70, 90), (70, 1)])
def test_masks_of_any_shape(device, sizes):
    operands, gradient = operands_of((2, 3, 70, 20), 90)
    mask = torch.randn(sizes)
    if mask.dim() == 1:
        mask = mask.expand(70, 90)
    check(device, operands, gradient, attn_mask=mask)


def test_rows_without_keys(device):
    operands, gradient = operands_of((1, 2, 9, 20), 70)
    mask = torch.rand(2, 9, 70) > 0.4
    mask[0, 3] = False
    check(device, operands, gradient, attn_mask=mask[None])


def test_grouped_queries(device):
    query = torch.randn(2, 6, 33, 20)
    key, value = (torch.randn(2, 2, 40, 20) for _ in range(2))
    gradient = torch.randn(2, 6, 33, 20)
    check(device, [query, key, value], gradient, enable_gqa=True, is_causal=True)


@pytest.mark.parametrize(
    ("size", "queries", "keys"),
    [
        (80, 66, 130),
        *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((5, 1, 1), (33, 64, 32))),
    ],
)
def test_sizes_around_tiles(device, size, queries, keys):
    """Heads of several tiles, of less than a vector, and of one more than a chunk."""
    check(device, *operands_of((1, 2, queries, size), keys))


def test_no_matrix_of_scores(device):
    """Memory grows with the length, not with its square."""
    length = 2048
    query = torch.randn(1, 1, length, 20, device=device)
    torch.accelerator.synchronize()
    torch.accelerator.memory.reset_peak_memory_stats()
    before = torch.accelerator.memory.memory_allocated()
    scaled_dot_product_attention(query, query, query, is_causal=True)
    used = torch.accelerator.memory.max_memory_allocated() - before
    assert used < length * length * 4 / 8
