"""Inference of transformer layers by device kernels, against CPU."""

import copy

import pytest
import torch
from torch import nn

from tests.device_kernels.on_device import compare

HEADS, WIDTH = 2, 8


def inference(module: nn.Module, operands: int = 1):
    """The module on the device of its input, which is all of its operands."""

    def run(x, named):
        with torch.inference_mode():
            return copy.deepcopy(module).eval().to(x.device)(*[x] * operands, **named)

    return run


def padding() -> torch.Tensor:
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = True
    return mask


CAUSAL = torch.ones(5, 5).tril() == 0


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"key_padding_mask": padding()},
        {"attn_mask": CAUSAL},
        {"key_padding_mask": padding(), "attn_mask": CAUSAL, "need_weights": False},
    ],
    ids=lambda named: "-".join(named) or "plain",
)
def test_attention(device, named):
    module = inference(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), 3)
    ran = compare(device, module, torch.randn(3, 5, WIDTH), named)
    assert "aten::_native_multi_head_attention" in ran


def test_attention_to_other_sequences(device):
    operands = [torch.randn(3, 5, WIDTH) for _ in range(3)]
    weights = [torch.randn(*s) for s in ((24, 8), (24,), (8, 8), (8,))]
    attention = torch.ops.aten._native_multi_head_attention
    near = {"atol": 1e-5, "rtol": 1e-5}  # kernels of GPUs sum in another order
    assert compare(
        device, attention, *operands, WIDTH, HEADS, *weights, support=frozenset(), **near
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(device, dtype, norm_first, activation):
    options = {"activation": activation, "norm_first": norm_first, "dtype": dtype}
    module = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, **options)
    # A layer rounds several times to half types, and not at the same elements.
    near = {"atol": 0.02, "rtol": 0.02} if dtype == torch.bfloat16 else {}
    x = torch.randn(3, 5, WIDTH, dtype=dtype)
    for named in ({}, {"src_key_padding_mask": padding()}):
        ran = compare(device, inference(module), x, named, **near)
        assert "aten::_transformer_encoder_layer_fwd" in ran
