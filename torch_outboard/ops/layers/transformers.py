"""What torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer call for inference."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import FLOATS, Row

# Without a mask and weights nobody needs the matrix of scores.
_HELPERS = """
def undefined(x: Tensor) -> Tensor:
    # Of gradients of nothing none is wanted.
    e = torch.empty([0, 1], dtype=x.dtype, device=x.device)
    return torch.native_layer_norm_backward(e, e, [1], e, e, None, None, [False, False, False])[0]

def heads_of(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, [heads, x.size(-1) // heads]).transpose(1, 2)

def attend(
    query: Tensor, key: Tensor, value: Tensor, heads: int, weight: Tensor, bias: Tensor,
    mask: Optional[Tensor], mask_type: Optional[int], need_weights: bool
) -> Tuple[Tensor, Optional[Tensor]]:
    d = query.size(2)
    if query is key and key is value:
        q, k, v = torch.linear(query, weight, bias).chunk(3, -1)
    else:
        q = torch.linear(query, weight[:d], bias[:d])
        k = torch.linear(key, weight[d:2 * d], bias[d:2 * d])
        v = torch.linear(value, weight[2 * d:], bias[2 * d:])
    q = heads_of(q, heads)
    k = heads_of(k, heads)
    v = heads_of(v, heads)
    if mask is None and not need_weights:
        out = torch._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
        return out.transpose(1, 2).flatten(2), None
    scores = torch.matmul(q * (float(d // heads) ** -0.5), k.transpose(-2, -1))
    if mask is None:
        scores = torch._softmax(scores, -1, False)
    else:
        scores = torch._masked_softmax(scores, mask.to(torch.bool), -1, mask_type)
    return torch.matmul(scores, v).transpose(1, 2).flatten(2), scores
"""


def _fits(query: str, heads: str) -> list[str]:
    """Conditions on sizes of a sequence and of what projects it."""
    return [
        f"dims({query}) == 3 && numel({query}) > 0",
        f"size({query}, 2) == embed_dim && {heads} > 0 && embed_dim % {heads} == 0",
        "sizes(qkv_weight) == [3 * embed_dim, embed_dim] && sizes(qkv_bias) == [3 * embed_dim]",
        "dims(proj_weight) == 2 && size(proj_weight, 1) == embed_dim",
        "sizes(proj_bias) == sizes(proj_weight)[:1]",
    ]


def rows() -> list[Row]:
    """Every row."""
    common: dict[str, Any] = {"helpers": _HELPERS, "dtypes": FLOATS, "family": "attention"}
    same_dtype = "assert qkv_weight.dtype == {0} and qkv_bias.dtype == {0}"
    return [
        composed(
            "_native_multi_head_attention",
            f"""
            {same_dtype.format("query.dtype")}
            x, scores = attend(
                query, key, value, num_head, qkv_weight, qkv_bias, mask, mask_type, need_weights
            )
            x = torch.linear(x, proj_weight, proj_bias)
            if scores is None or not need_weights:
                return x, undefined(query)
            if average_attn_weights:
                scores = scores.sum(1) / num_head
            return x, scores
            """,
            conditions=[
                *_fits("query", "num_head"),
                "sizes(key) == sizes(query) && sizes(value) == sizes(query)",
            ],
            **common,
        ),
        composed(
            "_transformer_encoder_layer_fwd",
            f"""
            {same_dtype.format("src.dtype")}
            x = src
            if norm_first:
                x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
            x = attend(x, x, x, num_heads, qkv_weight, qkv_bias, mask, mask_type, False)[0]
            x = torch.linear(x, proj_weight, proj_bias) + src
            if not norm_first:
                x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
            attended = x
            if norm_first:
                x = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
            x = torch.linear(x, ffn_weight_1, ffn_bias_1)
            x = torch.gelu(x) if use_gelu else torch.relu(x)
            x = torch.linear(x, ffn_weight_2, ffn_bias_2) + attended
            if not norm_first:
                x = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
            return x
            """,
            conditions=[*_fits("src", "num_heads"), "size(proj_weight, 0) == embed_dim"],
            **common,
        ),
    ]
