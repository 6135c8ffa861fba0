"""Fused inference operators of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer."""

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, Definition


def _heads_of(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], heads, x.size(-1) // heads).transpose(1, 2)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    d = query.size(2)
    if query is key and key is value:
        parts = linear(query, weight, bias).chunk(3, -1)
    else:
        parts = tuple(
            linear(x, weight[k * d : (k + 1) * d], bias[k * d : (k + 1) * d])
            for k, x in enumerate((query, key, value))
        )
    q, k, v = (_heads_of(part, heads) for part in parts)
    # Without a mask and returned weights the matrix of scores is not needed.
    if mask is None and not need_weights:
        out = torch._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
        return out.transpose(1, 2).flatten(2), None
    scores = torch.matmul(q * (float(d // heads) ** -0.5), k.transpose(-2, -1))
    if mask is None:
        scores = torch._softmax(scores, -1, False)
    else:
        scores = torch._masked_softmax(scores, mask.to(torch.bool), -1, mask_type)
    return torch.matmul(scores, v).transpose(1, 2).flatten(2), scores


def _multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    require(qkv_weight.dtype == query.dtype and qkv_bias.dtype == query.dtype)
    require(query.dim() == 3 and query.numel() > 0 and query.size(2) == embed_dim)
    require(num_head > 0 and embed_dim % num_head == 0)
    require(key.shape == query.shape == value.shape)
    require(qkv_weight.shape == (3 * embed_dim, embed_dim) and qkv_bias.shape == (3 * embed_dim,))
    require(proj_weight.dim() == 2 and proj_weight.size(1) == embed_dim)
    require(proj_bias.shape == proj_weight.shape[:1])
    x, scores = _attend(
        query, key, value, num_head, qkv_weight, qkv_bias, mask, mask_type, need_weights
    )
    x = linear(x, proj_weight, proj_bias)
    if scores is None or not need_weights:
        return x, None
    return x, scores.sum(1) / num_head if average_attn_weights else scores


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Tensor:
    require(src.dim() == 3 and src.numel() > 0 and proj_weight.shape == (embed_dim, embed_dim))

    def first_norm(x: Tensor) -> Tensor:
        return torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)

    x = first_norm(src) if norm_first else src
    weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    attended, _ = _multi_head_attention(
        x, x, x, embed_dim, num_heads, *weights, mask, False, False, mask_type
    )
    x = src + attended
    if not norm_first:
        x = first_norm(x)
    attended = x
    if norm_first:
        x = second_norm(x)
    x = linear(x, ffn_weight_1, ffn_bias_1)
    x = gelu(x) if use_gelu else torch.relu(x)
    x = linear(x, ffn_weight_2, ffn_bias_2) + attended
    return x if norm_first else second_norm(x)


def definitions() -> list[Definition]:
    """Every operator definition."""
    return [
        decomposition("_native_multi_head_attention", _multi_head_attention, dtypes=FLOATS),
        decomposition("_transformer_encoder_layer_fwd", _encoder_layer, dtypes=FLOATS),
    ]
