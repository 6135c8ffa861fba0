"""Inference of transformer layers by device kernels, against CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.device_kernels.conftest import ways_of
from tests.device_kernels.on_device import assert_as_on_cpu, assert_raises_as_on_cpu
from torch_outboard import fallback

HEADS, WIDTH = 2, 8


def as_on_cpu(device: torch.device, module: nn.Module, operator: str, *arguments, **named):
    """Asserts that a module gives the same as on CPU, by the device's kernels of `operator`."""
    move = lambda x: x.to(device) if isinstance(x, torch.Tensor) else x  # noqa: E731
    with torch.inference_mode():
        expected = module.eval()(*arguments, **named)
        moved = {id(x): move(x) for x in arguments}  # equal arguments stay the same tensor
        with fallback.report() as report:
            actual = module.to(device)(
                *(moved[id(x)] for x in arguments), **{k: move(v) for k, v in named.items()}
            )
        module.cpu()
    pairs = (
        zip(expected, actual, strict=True) if isinstance(expected, tuple) else [(expected, actual)]
    )
    for theirs, ours in pairs:
        if theirs is None:
            assert ours is None
        else:
            # A layer rounds several times to half types, and not at the same places.
            apart = {"atol": 0.02, "rtol": 0.02} if theirs.dtype == torch.bfloat16 else {}
            assert_close(ours.cpu(), theirs, equal_nan=True, **apart)
    ways = ways_of(report)
    assert operator in ways
    assert set(ways.values()) == {"device"}, ways


def padding() -> torch.Tensor:
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = True
    return mask


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"key_padding_mask": padding()},
        {"attn_mask": torch.ones(5, 5).tril() == 0},
        {
            "key_padding_mask": padding(),
            "attn_mask": torch.ones(5, 5).tril() == 0,
            "need_weights": False,
        },
    ],
    ids=lambda named: "-".join(named) or "plain",
)
def test_attention(device, named):
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(3, 5, WIDTH)
    as_on_cpu(device, module, "aten::_native_multi_head_attention", x, x, x, **named)


def test_attention_to_other_sequences(device):
    operands = [torch.randn(3, 5, WIDTH) for _ in range(3)]
    weights = [torch.randn(*s) for s in ((24, 8), (24,), (8, 8), (8,))]
    attention = torch.ops.aten._native_multi_head_attention
    assert_as_on_cpu(device, attention, *operands, WIDTH, HEADS, *weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(device, dtype, norm_first, activation):
    options = {"activation": activation, "norm_first": norm_first, "dtype": dtype}
    module = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, **options)
    name = "aten::_transformer_encoder_layer_fwd"
    x = torch.randn(3, 5, WIDTH, dtype=dtype)
    as_on_cpu(device, module, name, x)
    as_on_cpu(device, module, name, x, src_key_padding_mask=padding())


def test_errors_are_those_of_cpu(device):
    x, y = torch.randn(3, 5, WIDTH), torch.randn(3, 4, WIDTH)
    weights = [torch.randn(*s) for s in ((24, 8), (24,), (8, 8), (8,))]
    attention = torch.ops.aten._native_multi_head_attention
    for operands, heads in (((x, y, y), HEADS), ((x, x, x), 3), ((x[0], x[0], x[0]), HEADS)):
        assert_raises_as_on_cpu(device, attention, *operands, WIDTH, heads, *weights)
