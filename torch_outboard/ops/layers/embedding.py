"""Embeddings, embedding bags, and their gradients.

Indices out of range are skipped; the forward functions report them.
"""

import math
from functools import partial

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import FLOATS, INDICES, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymInt,
    SymTensor,
    as_flag,
    fits,
    given,
    has_dtype,
    same_dtype,
    where,
)
from torch_outboard.ops.template import Plan, template

_gradient = partial(template, dtypes=FLOATS, family="embedding_backward")


def definitions() -> list[Definition]:
    """Every operator definition."""
    return [
        _embedding,
        _dense_backward,
        _bags,
        *_bags_backward("_embedding_bag_dense_backward _embedding_bag_dense_backward.out"),
        *_bags_backward("_embedding_bag_backward"),
        decomposition(
            "_embedding_bag_per_sample_weights_backward"
            " _embedding_bag_per_sample_weights_backward.out",
            _weights_backward,
            dtypes=FLOATS,
            condition=_weighs_samples,
            family="embedding_backward",
        ),
        decomposition(
            "embedding_renorm_",
            _renormalize,
            dtypes=FLOATS,
            condition=lambda self, indices, norm_type: (
                (self.dim() == 2)
                & (self.numel() > 0)
                & (norm_type > 0)
                & ((norm_type < 1e30) | (norm_type == math.inf))
                & has_dtype(indices, *INDICES)
            ),
        ),
    ]


@template(
    "embedding embedding.out",
    "embedding",
    dtypes=FLOATS,
    accepts={"indices": INDICES},
    moves=("weight", "out"),
    reports=IndexError,
)
def _embedding(plan: Plan, weight: SymTensor, indices: SymTensor) -> None:
    plan.require(weight.dim() == 2, weight.size(0) > 0)
    plan.result("out", indices.shape + weight.shape[1:])
    plan.parameters(n=weight.size(1), row_count=weight.size(0))
    plan.launch("embedding", groups=indices.numel())


def _renormalize(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales rows with a larger norm down to `max_norm`; equal indices write equal rows."""
    rows = self.index_select(0, indices.reshape(-1))
    wide = torch.float64 if self.dtype == torch.float64 else torch.float32
    norms = torch.linalg.vector_norm(rows, norm_type, 1, True, dtype=wide)
    scales = torch.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
    return self.index_copy_(0, indices.reshape(-1).to(torch.int64), (rows * scales).to(self.dtype))


# ---- Gradients of embeddings, and of sums and means of bags


def _launch_ranges(
    plan: Plan, n: SymInt, indices: SymTensor, num_weights: SymInt, by_frequency: SymBool
) -> None:
    """Makes the gradient of the weight and launches work-groups that share its rows."""
    # More work-groups for long rows, and on a GPU, where each processes several rows at once.
    on_gpu = where(n >= 256, 1024, 256)
    ranges = where(plan.on_processor, where(n >= 512, 64, where(n >= 128, 32, 8)), on_gpu)
    plan.result("out", [num_weights, n], initial=0)
    plan.temporary("counts", where(by_frequency, num_weights, 1), torch.int32, initial=0)
    plan.parameters(n=n, row_count=num_weights, index_count=indices.numel(), ranges=ranges)
    plan.constants(BY_FREQUENCY=by_frequency)
    plan.launch("embedding_backward", groups=ranges)


@_gradient(
    "embedding_dense_backward embedding_dense_backward.out",
    "rows indices_in_order embedding_backward",
    accepts={"indices": INDICES},
    vectors=True,
)
def _dense_backward(
    plan: Plan,
    grad_output: SymTensor,
    indices: SymTensor,
    num_weights: SymInt,
    padding_idx: SymInt,
    scale_grad_by_freq: SymBool,
) -> None:
    n = grad_output.size(-1)
    plan.require(
        (num_weights > 0) & (n > 0) & (grad_output.dim() == indices.dim() + 1),
        grad_output.shape[:-1] == indices.shape,
    )
    _launch_ranges(plan, n, indices, num_weights, scale_grad_by_freq)
    plan.parameters(padding=padding_idx)
    plan.constants(BAG=0)


def _bags_backward(overloads: str) -> list[Definition]:
    """Gradients of bags: of sums and means, and of maxima."""

    def served(
        grad: SymTensor,
        indices: SymTensor,
        bag_size: SymTensor,
        num_weights: SymInt,
        rest: dict[str, Symbol],
    ) -> SymBool:
        some = (grad.dim() == 2) & (indices.dim() == 1) & (num_weights > 0) & (grad.numel() > 0)
        dense = ~as_flag(rest.get("sparse", False))
        return dense & some & (bag_size.shape == [grad.size(0)])

    @_gradient(
        overloads,
        "rows indices_in_order embedding_backward",
        accepts=dict.fromkeys(("indices", "offset2bag", "bag_size"), INDICES),
        vectors=True,
    )
    def sums_and_means(
        plan: Plan,
        grad: SymTensor,
        indices: SymTensor,
        offset2bag: SymTensor,
        bag_size: SymTensor,
        per_sample_weights: SymTensor,
        num_weights: SymInt,
        scale_grad_by_freq: SymBool,
        mode: SymInt,
        padding_idx: SymInt,
        **rest: Symbol,
    ) -> None:
        plan.require(
            served(grad, indices, bag_size, num_weights, rest),
            has_dtype(rest["offsets"], *INDICES) if "offsets" in rest else True,
            (mode == 0) | (mode == 1),
            offset2bag.shape == indices.shape,
            fits(per_sample_weights, indices.shape),
        )
        _launch_ranges(plan, grad.size(1), indices, num_weights, scale_grad_by_freq)
        plan.parameters(padding=padding_idx, bags=grad.size(0))
        plan.constants(BAG=1, MODE=mode)

    def maxima(grad: Tensor, maximum_indices: Tensor, bag_size: Tensor, num_weights: int) -> Tensor:
        counted = torch.where(bag_size.unsqueeze(1) > 0, grad, 0)
        weights = grad.new_zeros([num_weights, grad.size(1)])
        return weights.scatter_add_(0, maximum_indices.to(torch.int64), counted)

    def of_maxima(
        grad: SymTensor,
        indices: SymTensor,
        bag_size: SymTensor,
        maximum_indices: SymTensor,
        num_weights: SymInt,
        mode: SymInt,
        **rest: Symbol,
    ) -> SymBool:
        fits = (mode == 2) & (maximum_indices.shape == grad.shape)
        fits = fits & has_dtype(maximum_indices, *INDICES) & has_dtype(bag_size, *INDICES)
        return fits & served(grad, indices, bag_size, num_weights, rest)

    return [
        sums_and_means,
        decomposition(
            overloads, maxima, dtypes=FLOATS, condition=of_maxima, family="embedding_backward"
        ),
    ]


# ---- Bags


# Calls whose offsets and indices have different dtypes run on the host.
@template(
    "_embedding_bag _embedding_bag.out _embedding_bag_forward_only _embedding_bag_forward_only.out",
    "rows embedding_bag",
    dtypes=FLOATS,
    accepts={"indices": INDICES, "offsets": INDICES},
    vectors=True,
    reports=RuntimeError,
)
def _bags(
    plan: Plan,
    weight: SymTensor,
    indices: SymTensor,
    offsets: SymTensor,
    per_sample_weights: SymTensor,
    mode: SymInt,
    include_last_offset: SymBool,
    padding_idx: SymInt,
) -> None:
    n = weight.size(1)
    bags = offsets.size(0) - where(include_last_offset, 1, 0)
    plan.require(
        (weight.dim() == 2) & (indices.dim() == 1) & (offsets.dim() == 1),
        (weight.numel() > 0) & (bags > 0) & (offsets.size(0) > 0),
        (mode >= 0) & (mode <= 2),
        same_dtype(offsets, indices),
        where(given(per_sample_weights), mode == 0, True),
        fits(per_sample_weights, indices.shape),
    )
    plan.result("out", [bags, n])
    plan.result("offset2bag", indices.shape, indices, initial=0)
    plan.result("bag_size", [bags], indices)
    plan.result("maximum", where(mode == 2, [bags, n], [bags]), indices)
    plan.parameters(
        n=n,
        row_count=weight.size(0),
        index_count=indices.numel(),
        offset_count=offsets.size(0),
        padding=padding_idx,
    )
    plan.constants(MODE=mode)
    plan.launch("embedding_bag", groups=bags)


def _weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offset2bag: Tensor, padding_idx: int
) -> Tensor:
    """Products of rows of `grad` and `weight`; samples of no bag have none."""
    counts = (indices != padding_idx) & (offset2bag >= 0) & (offset2bag < grad.size(0))
    rows = weight.index_select(0, torch.where(counts, indices, 0))
    gradients = grad.index_select(0, torch.where(counts, offset2bag, 0))
    products = torch.bmm(gradients.unsqueeze(1), rows.unsqueeze(2)).reshape(indices.shape)
    return torch.where(counts, products, 0)


def _weighs_samples(
    grad: SymTensor,
    weight: SymTensor,
    indices: SymTensor,
    offsets: SymTensor,
    offset2bag: SymTensor,
    mode: SymInt,
) -> SymBool:
    of_rows = (grad.dim() == 2) & (weight.dim() == 2) & (grad.size(1) == weight.size(1))
    indexed = (indices.dim() == 1) & (offset2bag.shape == indices.shape)
    for tensor in (indices, offsets, offset2bag):
        indexed = indexed & has_dtype(tensor, *INDICES)
    some = (weight.numel() > 0) & (grad.numel() > 0)
    return (mode == 0) & same_dtype(grad, weight) & of_rows & indexed & some
