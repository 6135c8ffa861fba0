"""Reductions of segments, and the gradient."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, INDICES, Definition
from torch_outboard.ops.symbolic import (
    Int,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymString,
    SymTensor,
    either,
    given,
    ints,
    where,
    wrap,
)
from torch_outboard.ops.template import Plan, template

_KINDS = ("sum", "mean", "max", "min", "prod")
_define = partial(
    template,
    kernels="segments",
    dtypes=FLOATS,
    accepts={"lengths": INDICES, "offsets": INDICES},
)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        _segment_reduce,
        # If lengths have to be checked, a decomposition does so first.
        decomposition("segment_reduce segment_reduce.out", _checked, dtypes=FLOATS),
        _segment_reduce_backward,
    ]


class _Segments(NamedTuple):
    """The segments of a dimension of `data`: a list for each index of the dimensions before it."""

    lists: SymInt
    total: SymInt  # segments per list
    length: SymInt  # size of the dimension
    inner: SymInt  # elements per index of the dimension
    reduced: SymInts  # shape of the result


def _segments_of(
    plan: Plan, data: SymTensor, lengths: SymTensor, offsets: SymTensor, axis: SymInt
) -> _Segments:
    dim = wrap(axis, data.dim())
    bounded = where(given(lengths), lengths, offsets)
    # There is one offset more than segments.
    count = bounded.size(-1) - where(given(lengths), 0, 1)
    outer, inner = bounded.shape[:dim], data.shape[dim + 1 :]
    plan.require(
        given(lengths) != given(offsets),
        data.dim() > 0,
        bounded.dim() == dim + 1,
        data.shape[:dim] == outer,
        count >= 0,
    )
    reduced = data.shape[:dim] + ints((count,)) + inner
    return _Segments(outer.prod(), count, data.size(dim), inner.prod(), reduced)


def _kind(reduce: SymString) -> Int:
    """The index in _KINDS, or -1."""
    kind: Int = -1
    for number, name in reversed(list(enumerate(_KINDS))):
        kind = where(reduce == name, number, kind)
    return kind


def _launch(
    plan: Plan,
    segments: _Segments,
    lengths: SymTensor,
    reduce: SymString,
    initial: SymFloat,
    *,
    backward: bool,
) -> None:
    bounds = where(given(lengths), segments.lists * (segments.total + 1), 1)
    plan.temporary("locations", bounds, torch.int64)
    plan.parameters(segments=segments.total, length=segments.length, inner=segments.inner)
    plan.parameters(initial=either(initial, 0.0))
    plan.constants(KIND=_kind(reduce), GIVEN=given(initial), BACKWARD=backward)
    plan.launch("bounds", segments.lists, when=given(lengths))
    plan.launch("reduce", segments.reduced.prod())


@_define("segment_reduce segment_reduce.out", shapes_only=("indices",))
def _segment_reduce(
    plan: Plan,
    data: SymTensor,
    lengths: SymTensor,
    offsets: SymTensor,
    indices: SymTensor,
    reduce: SymString,
    axis: SymInt,
    unsafe: SymBool,
    initial: SymFloat,
) -> None:
    segments = _segments_of(plan, data, lengths, offsets, axis)
    # Checking lengths needs a copy to the host.
    plan.require(_kind(reduce) >= 0, given(offsets) | unsafe, ~given(indices))
    plan.result("out", segments.reduced)
    _launch(plan, segments, lengths, reduce, initial, backward=False)


@_define("_segment_reduce_backward _segment_reduce_backward.out")
def _segment_reduce_backward(
    plan: Plan,
    data: SymTensor,
    grad: SymTensor,
    output: SymTensor,
    lengths: SymTensor,
    offsets: SymTensor,
    reduce: SymString,
    axis: SymInt,
    initial: SymFloat,
) -> None:
    segments = _segments_of(plan, data, lengths, offsets, axis)
    reduced = segments.reduced
    plan.require(_kind(reduce) >= 0, grad.shape == reduced, output.shape == reduced)
    plan.result("out", data.shape, initial=0)
    _launch(plan, segments, lengths, reduce, initial, backward=True)


def _checked(
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    offsets: Tensor | None,
    indices: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: float | None,
) -> Tensor:
    require(lengths is not None and offsets is None and indices is None and not unsafe)
    assert lengths is not None
    require(lengths.numel() > 0 and bool((lengths.min() >= 0).item()))
    require(bool((lengths.sum(-1) == data.size(axis)).all().item()))
    return torch.segment_reduce(
        data, reduce, lengths=lengths, axis=axis, unsafe=True, initial=initial
    )
