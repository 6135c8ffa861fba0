"""Scaled dot-product attention by device kernels, against CPU."""

from functools import partial

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.device_kernels.on_device import compare, with_gradients

FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"


def check(device, operands, mask=None, **options):
    """The output, all gradients, and their strides."""
    run = with_gradients(partial(scaled_dot_product_attention, **options))
    leaves = [x.requires_grad_() for x in operands]
    assert compare(device, run, *leaves, mask, check_stride=True) >= {
        FORWARD,
        FORWARD + "_backward",
    }


def operands_of(sizes, keys, dtype=torch.float32):
    batch, heads, queries, size = sizes
    query = torch.randn(batch, queries, heads, size, dtype=dtype).transpose(1, 2)
    return [query, *(torch.randn(batch, heads, keys, size, dtype=dtype) for _ in range(2))]


def test_bfloat16(device):
    """Nearer to the result in float64 than CPU's kernel, which rounds probabilities."""
    operands = operands_of((2, 2, 70, 20), 70, torch.bfloat16)
    run = with_gradients(partial(scaled_dot_product_attention, is_causal=True))
    locations = (("cpu", torch.float64), ("cpu", torch.bfloat16), (device, torch.bfloat16))
    results = [
        run(*(x.detach().to(*location).requires_grad_() for x in operands))
        for location in locations
    ]
    for want, cpu, got in zip(*results, strict=True):
        assert (got.cpu() - want).abs().max() <= 1.1 * (cpu - want).abs().max()


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("keys", [70, 30, 150])
def test_causal(device, heads, keys):
    """A CPU of two cores has one kernel for the gradients of two heads, and two for one head."""
    check(device, operands_of((1, heads, 130, 20), keys), is_causal=True, scale=0.3)


@pytest.mark.parametrize("sizes", [(2, 1, 1, 90), (70, 90), (1, 3, 70, 90), (70, 1)])
def test_masks_of_any_shape(device, sizes):
    """The last row of some has no key."""
    mask = torch.rand(sizes) > 0.4
    if sizes[-2:] == (70, 90):
        mask[..., 69, :] = False
    for given in (mask, torch.randn(sizes)):
        check(device, operands_of((2, 3, 70, 20), 90), given)


def test_grouped_queries(device):
    operands = [torch.randn(2, heads, n, 20) for heads, n in ((6, 70), (2, 90), (2, 90))]
    check(device, operands, enable_gqa=True, is_causal=True)


@pytest.mark.parametrize(
    ("size", "queries", "keys"),
    [
        (80, 66, 130),
        *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((5, 1, 1), (33, 64, 32))),
    ],
)
def test_sizes_around_tiles(device, size, queries, keys):
    """Heads of several tiles, of less than a vector, and of one more than a chunk."""
    check(device, operands_of((1, 2, queries, size), keys))


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
