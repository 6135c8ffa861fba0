"""Attention in compiled graphs: the device's kernel, and flex_attention by its dense formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.inductor.support import kernels_of

SIZES = ((4, 48), (2, 32), (2, 32))  # heads and length of queries, keys, values


def test_the_kernel_of_the_device_is_called(device):
    """Also for attention that is written out, which PyTorch knows when it sees it."""
    q, k, v = (torch.randn(2, 4, 32, 16, device=device) for _ in range(3))
    for function in (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 2,
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v,
    ):
        text = kernels_of(function, q, k, v).split("def call")[-1]
        assert "scaled_dot_product_flash_attention" in text
        assert "bmm" not in text


def attend(q: Any, k: Any, v: Any, slope: Any, compiled: bool, **options: Any) -> Any:
    def score(score: Any, batch: Any, head: Any, m: Any, n: Any) -> Any:
        return score + slope[head] * (m - n) * 0.1

    mask = create_block_mask(lambda b, h, m, n: m + 3 >= n, None, None, 48, 32, device=q.device)
    function = torch.compile(flex_attention, **options) if compiled else flex_attention
    return function(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)


def written_out(q: Any, k: Any, v: Any, slope: Any) -> Any:
    m, n = torch.arange(48)[:, None], torch.arange(32)
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 4
    scores = scores + slope[None, :, None, None] * (m - n) * 0.1
    scores = scores.masked_fill(~(m + 3 >= n), float("-inf"))
    return scores.softmax(-1) @ v.repeat_interleave(2, 1)


@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.slow)])
def test_flex_attention(device, dynamic):
    torch.manual_seed(0)
    given = [torch.randn(2, heads, length, 16) for heads, length in SIZES]
    given.append(torch.randn(4))
    reference = [x.clone().requires_grad_() for x in given]
    mine = [x.to(device).requires_grad_() for x in given]
    expected, actual = written_out(*reference), attend(*mine, compiled=True, dynamic=dynamic)
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-5)
    expected.square().sum().backward()
    actual.square().sum().backward()
    for ours, right in zip(mine, reference, strict=True):
        torch.testing.assert_close(ours.grad, right.grad, check_device=False, rtol=1e-3, atol=1e-4)


def test_flex_attention_of_half_precision(device):
    torch.manual_seed(0)
    given = [torch.randn(2, heads, length, 16) for heads, length in SIZES]
    slope = torch.randn(4)
    with torch.no_grad():
        actual = attend(*(x.half().to(device) for x in given), slope.to(device), compiled=True)
    assert actual.dtype == torch.float16
    torch.testing.assert_close(
        actual.float(), written_out(*given, slope), check_device=False, rtol=1e-2, atol=5e-3
    )
