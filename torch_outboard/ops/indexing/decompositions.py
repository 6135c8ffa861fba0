"""Decompositions of operators that read and write elements at indices or by masks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import EVERY, INDICES, REALS, Definition, Report
from torch_outboard.ops.symbolic import SymBool, SymTensor


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *_along_dimension(),
        _put(accumulates=True),
        _put(accumulates=False),
        decomposition("repeat_interleave.Tensor", _repeat_interleave),
        decomposition("nonzero_static nonzero_static.out", _nonzero_static),
        decomposition("masked_select masked_select.out", _masked_select),
        decomposition("masked_scatter_", _masked_scatter_),
    ]


def _expanded(index: Tensor, d: int, like: Tensor) -> Tensor:
    # Expands the indices of one dimension to the shape of the selection.
    shape = [1] * like.dim()
    shape[d] = index.numel()
    return index.reshape(shape).expand(like.shape)


def _at_least_1d(x: Tensor) -> Tensor:
    return x.reshape(1) if x.dim() == 0 else x


def _row_major(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _wrapped(d: int, x: Tensor) -> int:
    return d if d >= 0 else d + max(x.dim(), 1)


def _index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float) -> Tensor:
    what = _at_least_1d(source)
    d = _wrapped(dim, self)
    require(self.is_floating_point() or self.is_complex() or isinstance(alpha, int))
    if alpha != 1:
        what = what * alpha
    _at_least_1d(self).scatter_add_(d, _expanded(index, d, what), what.to(self.dtype))
    return self


def _index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    what = _at_least_1d(source)
    d = _wrapped(dim, self)
    _at_least_1d(self).scatter_(d, _expanded(index, d, what), what)
    return self


def _index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    what = _at_least_1d(source)
    d = _wrapped(dim, self)
    indices = _expanded(index, d, what)
    _at_least_1d(self).scatter_reduce_(d, indices, what, reduce, include_self=include_self)
    return self


def _index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | complex) -> Tensor:
    flat = _at_least_1d(self)
    require(index.dtype == torch.int64 and index.dim() < 2 and self.numel() > 0)
    require(-flat.dim() <= dim < flat.dim())
    d = _wrapped(dim, self)
    shape = list(flat.shape)
    shape[d] = index.numel()
    indices = torch.where(index < 0, index + flat.size(d), index)
    if isinstance(value, Tensor):
        require(value.dim() == 0 and (self.is_complex() or not value.is_complex()))
        what = value.to(self.device).to(self.dtype).expand(shape)
        flat.scatter_(d, _expanded(indices, d, what), what)
    else:
        flat.scatter_(d, _expanded(indices, d, flat.new_empty([1]).expand(shape)), value)
    return self


def _not_empty(self: SymTensor, index: SymTensor) -> SymBool:
    # PyTorch's meta functions read the first slice, so there must be one.
    return (index.numel() > 0) & (self.numel() > 0)


def _along_dimension() -> list[Definition]:
    """Operators with one index tensor for one dimension."""
    add, copy, reduce = "index_add", "index_copy", "index_reduce"
    return [
        # CPU raises an exception of another type for wrong indices of vectors.
        *_in_both_forms(
            add,
            lambda self, dim, index, source, alpha: _index_add_(
                _row_major(self), dim, index, source, alpha
            ),
            _index_add_,
            condition=lambda self, index: _not_empty(self, index) & (self.dim() < 2),
        ),
        *_in_both_forms(
            add,
            lambda self, dim, index, source, alpha: _index_add_(
                _row_major(self), dim, index, source, alpha
            ),
            _index_add_,
            condition=lambda self, index: _not_empty(self, index) & (self.dim() > 1),
            reports=RuntimeError,
        ),
        *_in_both_forms(
            copy,
            lambda self, dim, index, source: _index_copy_(_row_major(self), dim, index, source),
            _index_copy_,
        ),
        *_in_both_forms(
            reduce,
            lambda self, dim, index, source, reduce, include_self: _index_reduce_(
                _row_major(self), dim, index, source, reduce, include_self
            ),
            _index_reduce_,
            dtypes=REALS,
        ),
        decomposition(
            "index_fill_.int_Scalar index_fill_.int_Tensor", _index_fill_, reports=IndexError
        ),
    ]


def _in_both_forms(
    name: str,
    functional: Callable[..., Tensor],
    in_place: Callable[..., Tensor],
    *,
    dtypes: Sequence[torch.dtype] = EVERY,
    condition: Callable[..., SymBool] = _not_empty,
    reports: Report = IndexError,
) -> list[Definition]:
    return [
        decomposition(overloads, body, dtypes=dtypes, condition=condition, reports=reports)
        for overloads, body in ((f"{name} {name}.out", functional), (f"{name}_", in_place))
    ]


def _put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    require(index.dtype == torch.int64 and source.dtype == self.dtype)
    require(index.numel() == source.numel() and (self.numel() > 0 or index.numel() == 0))
    flat = self.reshape(-1)
    indices = index.reshape(-1)
    indices = torch.where(indices < 0, indices + flat.numel(), indices)
    if accumulate:
        flat.scatter_add_(0, indices, source.reshape(-1))
    else:
        flat.scatter_(0, indices, source.reshape(-1))
    if not self.is_contiguous():
        self.copy_(flat.reshape(self.shape))
    return self


def _put(*, accumulates: bool) -> Definition:
    return decomposition(
        "put_",
        _put_,
        condition=lambda accumulate: accumulate == accumulates,
        # With duplicate indices the result is not deterministic.
        alert="" if accumulates else "put_",
        reports=IndexError,
    )


_OVERFLOW = -2


def _repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    require(repeats.dim() == 1 and repeats.dtype in INDICES)
    ends = repeats.cumsum(0)
    total = 0
    if repeats.numel() > 0:
        # The cumulative sum of non-negative numbers becomes negative at its first overflow.
        last = torch.where((ends < 0).any(), _OVERFLOW, ends[-1])
        last = torch.where((repeats < 0).any(), -1, last)
        if output_size is not None:
            require(output_size >= 0)
            ends = torch._functional_assert_async(last == output_size, "", ends)
            total = output_size
        else:
            total = int(last.item())
            if total == _OVERFLOW:
                raise RuntimeError("repeat_interleave: the sum of the repeats overflows int64")
            require(total >= 0)
    else:
        require(output_size is None or output_size == 0)
    items = torch.arange(total, dtype=ends.dtype, device=repeats.device)
    return torch.searchsorted(ends, items, right=True).to(repeats.dtype)


def _nonzero_static(self: Tensor, size: int, fill_value: int) -> Tensor:
    require(size >= 0)
    indices = self.nonzero()[:size]
    padding = torch.full(
        [size - indices.size(0), self.dim()], fill_value, dtype=torch.int64, device=self.device
    )
    return torch.cat([indices, padding])


def _masked_select(self: Tensor, mask: Tensor) -> Tensor:
    require(mask.dtype == torch.bool)
    x, m = torch.broadcast_tensors(self, mask)
    indices = m.reshape(-1).nonzero().reshape(-1)
    selected: Tensor = x.reshape(-1).index_select(0, indices)
    return selected


def _masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    require(mask.dtype == torch.bool and source.dtype == self.dtype)
    m = mask.expand(self.shape).reshape(-1)
    counts = m.cumsum(0)
    if m.numel() > 0:
        require(int(counts[-1].item()) <= source.numel())
    indices = torch.clamp(counts - 1, 0)
    if source.numel() > 0 and m.numel() > 0:
        what = source.reshape(-1).index_select(0, indices)
        self.copy_(torch.where(m, what, self.reshape(-1)).reshape(self.shape))
    return self
