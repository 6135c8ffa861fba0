"""Embeddings, embedding bags, and their gradients.

Indices out of range are skipped; the forward functions report them.
"""

from functools import partial

import torch

from torch_outboard.ops.definition import FLOATS, INDICES, Definition
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
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
        _bag_weights_backward,
        _renormalization,
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


@template("embedding_renorm_", "embedding", dtypes=FLOATS, accepts={"indices": INDICES})
def _renormalization(
    plan: Plan, self: SymTensor, indices: SymTensor, max_norm: SymFloat, norm_type: SymFloat
) -> None:
    plan.require(self.dim() == 2, self.numel() > 0, norm_type > 0)
    plan.result("out", initial=self)
    plan.temporary("chosen", self.size(0), torch.int32, initial=-1)
    plan.parameters(n=self.size(1), row_count=self.size(0), limit=max_norm, order=norm_type)
    one_or_two = where(norm_type == 1, 1, where(norm_type == 2, 2, 3))
    plan.constants(NORM=where(norm_type > 1e300, 0, one_or_two))
    plan.launch("embedding_renorm_choose", indices.numel())
    plan.launch("embedding_renorm", groups=indices.numel())


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

    def require(
        plan: Plan,
        grad: SymTensor,
        indices: SymTensor,
        bag_size: SymTensor,
        num_weights: SymInt,
        rest: dict[str, Symbol],
    ) -> None:
        plan.require(
            ~as_flag(rest.get("sparse", False)),
            (grad.dim() == 2) & (indices.dim() == 1) & (num_weights > 0) & (grad.numel() > 0),
            bag_size.shape == [grad.size(0)],
        )

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
        require(plan, grad, indices, bag_size, num_weights, rest)
        plan.require(
            has_dtype(rest["offsets"], *INDICES) if "offsets" in rest else True,
            (mode == 0) | (mode == 1),
            offset2bag.shape == indices.shape,
            fits(per_sample_weights, indices.shape),
        )
        _launch_ranges(plan, grad.size(1), indices, num_weights, scale_grad_by_freq)
        plan.parameters(padding=padding_idx, bags=grad.size(0))
        plan.constants(BAG=1, MODE=mode)

    @_gradient(
        overloads,
        "embedding_bag",
        shapes_only=("indices",),
        accepts=dict.fromkeys(("maximum_indices", "bag_size"), INDICES),
    )
    def maxima(
        plan: Plan,
        grad: SymTensor,
        maximum_indices: SymTensor,
        bag_size: SymTensor,
        indices: SymTensor,
        num_weights: SymInt,
        mode: SymInt,
        **rest: Symbol,
    ) -> None:
        require(plan, grad, indices, bag_size, num_weights, rest)
        plan.require(mode == 2, maximum_indices.shape == grad.shape)
        n = grad.size(1)
        plan.result("out", [num_weights, n], initial=0)
        plan.parameters(n=n, row_count=num_weights, bags=grad.size(0))
        plan.launch("embedding_bag_maximum_backward", n)

    return [sums_and_means, maxima]


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


@_gradient(
    "_embedding_bag_per_sample_weights_backward _embedding_bag_per_sample_weights_backward.out",
    "rows embedding_bag",
    accepts={"indices": INDICES, "offset2bag": INDICES},
    vectors=True,
    shapes_only=("offsets",),
)
def _bag_weights_backward(
    plan: Plan,
    grad: SymTensor,
    weight: SymTensor,
    indices: SymTensor,
    offsets: SymTensor,
    offset2bag: SymTensor,
    mode: SymInt,
    padding_idx: SymInt,
) -> None:
    plan.require(
        mode == 0,
        has_dtype(offsets, *INDICES),
        (grad.dim() == 2) & (weight.dim() == 2) & (grad.size(1) == weight.size(1)),
        (indices.dim() == 1) & (offset2bag.shape == indices.shape),
        (weight.numel() > 0) & (grad.numel() > 0),
    )
    plan.result("out", indices.shape)
    plan.parameters(
        n=weight.size(1), row_count=weight.size(0), bags=grad.size(0), padding=padding_idx
    )
    plan.launch("embedding_bag_weights_backward", groups=indices.numel())
