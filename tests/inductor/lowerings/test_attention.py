"""Attention in compiled graphs: the device's kernel; flex_attention by kernels and formula."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.inductor.support import kernels_of, skip_without_kernels
from torch_outboard.inductor.lowerings import flex_kernels

pytestmark = pytest.mark.by_turns(2)

SIZES = ((4, 48), (2, 32), (2, 32))  # heads and length of queries, keys, values


def test_the_kernel_of_the_device_is_called(device):
    """Also for attention that is written out, which PyTorch knows when it sees it."""

    def function(q, k, v):
        written_out = torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v
        return F.scaled_dot_product_attention(q, k, v) * 2, written_out

    q, k, v = (torch.randn(2, 4, 32, 16, device=device) for _ in range(3))
    code = kernels_of(function, q, k, v).split("def call")[-1]
    assert code.count("= torch.ops.aten._scaled_dot_product_flash_attention") == 2
    assert "bmm" not in code


def test_operators_of_cuda(device):
    """Called by their names, as programs do that were traced elsewhere; with gradients."""

    def function(q, k, v):
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)[0]
        flash = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=True)[0]
        return torch.stack([efficient, flash * 2])

    # As linear layers leave it.
    given = [torch.randn(2, 36, 4, 20, device=device).transpose(1, 2) for _ in range(3)]
    results = []
    for call in (function, torch.compile(function, fullgraph=True)):
        leaves = [x.clone().requires_grad_() for x in given]
        output = call(*leaves)
        results.append([output, *torch.autograd.grad(output.square().sum(), leaves)])
    for eager, compiled in zip(*results, strict=True):
        assert compiled.stride() == eager.stride()
        torch.testing.assert_close(compiled, eager)


def attend(q: Any, k: Any, v: Any, slope: Any, **options: Any) -> Any:
    def score(score: Any, batch: Any, head: Any, m: Any, n: Any) -> Any:
        return score + slope[head] * (m - n) * 0.1

    mask = create_block_mask(lambda b, h, m, n: m + 3 >= n, None, None, 48, 32, device=q.device)
    function = torch.compile(flex_attention, **options)
    return function(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)


def written_out(q: Any, k: Any, v: Any, slope: Any) -> Any:
    m, n = torch.arange(48)[:, None], torch.arange(32)
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 4
    scores = scores + slope[None, :, None, None] * (m - n) * 0.1
    scores = scores.masked_fill(~(m + 3 >= n), float("-inf"))
    return scores.softmax(-1) @ v.repeat_interleave(2, 1)


@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.slow)])
def test_flex_attention(device, dynamic):
    given = [torch.randn(2, heads, length, 16) for heads, length in SIZES]
    given.append(torch.randn(4))
    reference = [x.clone().requires_grad_() for x in given]
    mine = [x.to(device).requires_grad_() for x in given]
    expected, actual = written_out(*reference), attend(*mine, dynamic=dynamic)
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-5)
    expected.square().sum().backward()
    actual.square().sum().backward()
    for ours, right in zip(mine, reference, strict=True):
        torch.testing.assert_close(ours.grad, right.grad, check_device=False, rtol=1e-3, atol=1e-4)


# ---- Kernels against eager mode


def documents(device: Any) -> Any:
    owner = (torch.arange(300) // 60).to(device)
    return lambda b, h, m, n: (owner[m] == owner[n]) & ((m - n).abs() < 50) | (n == 0)


def causal(device: Any) -> Any:
    return lambda b, h, m, n: m >= n


def soft_cap(device: Any) -> Any:
    return lambda score, b, h, m, n: torch.tanh(score / 20) * 20


def distances(device: Any) -> Any:
    """A table, a tensor of one number, and arithmetic of integers."""
    torch.manual_seed(1)  # the same in both calls
    table, half = torch.randn(4, 200).to(device), torch.tensor(0.5, device=device)
    return lambda score, b, h, m, n: (
        torch.where(m >= n, score * half, score.clamp(-1, 1))
        + table[h, torch.clamp(m - n, -100, 99)]
        + (m - n) // 7 * 0.1 + (n - m) % 5 + torch.div(m - n, 9, rounding_mode=None)
    )  # fmt: skip


def late(device: Any) -> Any:
    """Leaves rows without keys: zeros, without a gradient."""
    return lambda b, h, m, n: (m > 40) & (n < m)


# Sizes, score, mask, dtype and tolerance, sizes of blocks.
CASES = {
    "plain": ((1, 2, 2, 100, 70, 16), None, None, torch.float32, 1e-3, None),
    "soft cap": ((2, 4, 4, 70, 70, 16), soft_cap, causal, torch.float32, 1e-3, None),
    "rows without keys": ((1, 2, 2, 128, 70, 16), None, late, torch.float32, 1e-3, None),
    "blocks": ((1, 4, 1, 300, 300, 20), distances, documents, torch.float32, 1e-3, 64),
    "two sizes": ((1, 2, 2, 300, 300, 64), None, documents, torch.float32, 1e-3, (32, 64)),
    "float16": ((2, 4, 2, 130, 70, 32), distances, causal, torch.float16, 1e-2, None),
    "bfloat16": ((2, 4, 2, 130, 70, 32), distances, causal, torch.bfloat16, 8e-2, None),
}


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if c == "soft cap" else pytest.mark.slow) for c in CASES]
)
def test_kernels(device, monkeypatch, case):
    """Output and gradients are those of eager mode in float32; kernels have to be used."""
    skip_without_kernels()
    sizes, score, mask, dtype, tolerance, block = CASES[case]
    batch, heads, key_heads, queries, keys, size = sizes
    shapes = [(batch, queries, heads, size), *[(batch, key_heads, keys, size)] * 2]
    given = [torch.randn(shape) for shape in shapes]
    given[0] = given[0].transpose(1, 2)
    gradient = torch.randn(batch, heads, queries, size)
    blocks = {} if block is None else {"BLOCK_SIZE": block}
    allowed = mask and create_block_mask(
        mask(device), None, None, queries, keys, device=device, **blocks
    )
    monkeypatch.setattr(flex_kernels, "DENSE_BYTES", 0)
    counters.clear()
    results = []
    for function, kind in ((torch.compile(flex_attention), dtype), (flex_attention, torch.float32)):
        leaves = [x.to(kind).to(device).requires_grad_() for x in given]
        out = function(
            *leaves, score_mod=score and score(device), block_mask=allowed,
            enable_gqa=heads != key_heads,
        )  # fmt: skip
        found = torch.autograd.grad(out, leaves, gradient.to(kind).to(device))
        assert counters[device.type]["flex_attention_kernels"] == 2
        assert [x.stride() for x in found] == [x.stride() for x in leaves]
        results.append([x.float().cpu() for x in (out.detach(), *found)])
    absolute = tolerance / 10 if dtype == torch.float32 else tolerance
    torch.testing.assert_close(*results, rtol=tolerance, atol=absolute)
    if mask is late:
        assert not results[0][0][:, :, :41].any()


@pytest.mark.slow
def test_a_wrong_index_of_a_score(device, monkeypatch):
    """Is never followed; the next wait raises it."""
    skip_without_kernels()
    table = torch.randn(10).to(device)
    q = torch.randn(1, 1, 64, 16).to(device)
    mask = create_block_mask(lambda b, h, m, n: m >= n, None, None, 64, 64, device=device)

    def attend(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(
            q, q, q, score_mod=lambda s, b, h, m, n: s + table[m], block_mask=mask
        )

    monkeypatch.setattr(flex_kernels, "DENSE_BYTES", 0)
    with torch.no_grad():
        torch.compile(attend)(q)
        with pytest.raises(IndexError):
            torch.accelerator.synchronize()


@pytest.mark.slow
def test_attention_without_a_source_is_computed_by_the_formula(device):
    """A cumulative sum over a tensor from outside."""
    skip_without_kernels()
    counters.clear()
    q = torch.randn(1, 2, 64, 16)
    table = torch.randn(64)

    def attend(q: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return flex_attention(
            q, q, q, score_mod=lambda s, b, h, m, n: s + table.cumsum(0)[m] * 0 + table.sum()
        )

    with torch.no_grad():
        actual = torch.compile(attend)(q.to(device), table.to(device))
    assert counters[device.type]["dense_attention"] == 1
    scores = q @ q.transpose(-1, -2) / 4
    torch.testing.assert_close(actual.cpu(), scores.softmax(-1) @ q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_autocast(device, compiled):
    """Casts what is attended to, with its gradient."""
    q, v = torch.randn(1, 2, 128, 16), torch.randn(1, 2, 128, 16)
    mask = create_block_mask(lambda b, h, m, n: m >= n, None, None, 128, 128, device=device)
    function = torch.compile(flex_attention) if compiled else flex_attention
    query = q.to(device).requires_grad_()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out = function(query, query, v.half().to(device), block_mask=mask)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert query.grad.dtype == torch.float32
    expected = F.scaled_dot_product_attention(q, q, v, is_causal=True)
    torch.testing.assert_close(out.float().cpu(), expected, rtol=3e-2, atol=3e-2)
