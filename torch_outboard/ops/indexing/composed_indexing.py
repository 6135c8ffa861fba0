"""Operators that read and write at places given by index tensors and masks, made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import EVERY, FLOATS, INTEGERS, Row

REAL = (*FLOATS, *INTEGERS)


def rows() -> list[Row]:
    """Every row."""
    return [*_along_dimension(), *_of_flat_places(), *_with_masks()]


def _expanded(index: Tensor, d: int, like: Tensor) -> Tensor:
    # A tensor of one dimension for a tensor of the shape of what it selects.
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


def _index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float) -> Tensor:
    return _index_add_(_row_major(self), dim, index, source, alpha)


def _index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    what = _at_least_1d(source)
    d = _wrapped(dim, self)
    _at_least_1d(self).scatter_(d, _expanded(index, d, what), what)
    return self


def _index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _index_copy_(_row_major(self), dim, index, source)


def _index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    what = _at_least_1d(source)
    d = _wrapped(dim, self)
    places = _expanded(index, d, what)
    _at_least_1d(self).scatter_reduce_(d, places, what, reduce, include_self=include_self)
    return self


def _index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    return _index_reduce_(_row_major(self), dim, index, source, reduce, include_self)


def _index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    flat = _at_least_1d(self)
    d = _wrapped(dim, self)
    shape = list(flat.shape)
    shape[d] = index.numel()
    places = torch.where(index < 0, index + flat.size(d), index)
    if isinstance(value, Tensor):
        require(self.is_complex() or not value.is_complex())
        what = value.to(self.device).to(self.dtype).expand(shape)
        flat.scatter_(d, _expanded(places, d, what), what)
    else:
        flat.scatter_(d, _expanded(places, d, flat.new_empty([1]).expand(shape)), value)
    return self


def _along_dimension() -> list[Row]:
    """Operators with one index tensor for one dimension."""
    in_range = ["dims(index) < 2", "-max(dims(self), 1) <= dim && dim < max(dims(self), 1)"]
    forms: list[tuple[str, Callable[..., Any], Callable[..., Any], Any]] = [
        ("index_add", _index_add, _index_add_, EVERY),
        ("index_copy", _index_copy, _index_copy_, EVERY),
        ("index_reduce", _index_reduce, _index_reduce_, REAL),
    ]
    # Which exception wrong indices raise on CPU.
    errors = {
        "index_add": [("dims(self) < 2", "IndexError"), ("dims(self) > 1", "RuntimeError")],
    }
    return [
        *(
            composed(
                overloads,
                body,
                dtypes=dtypes,
                # PyTorch's meta functions look at the first slice, which is not always there.
                conditions=["numel(index) > 0", "numel(self) > 0", dimensions],
                reports=error,
                family="indexing",
            )
            for name, functional, in_place, dtypes in forms
            for dimensions, error in errors.get(name, [("dims(self) >= 0", "IndexError")])
            for overloads, body in ((f"{name} {name}.out", functional), (f"{name}_", in_place))
        ),
        *(
            composed(
                f"index_fill_.{value}",
                _index_fill_,
                conditions=[*in_range, *more, "numel(self) > 0"],
                requires={"index": "dtype int64"},
                reports="IndexError",
                family="indexing",
            )
            for value, more in (("int_Scalar", []), ("int_Tensor", ["dims(value) == 0"]))
        ),
    ]


def _put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    flat = self.reshape(-1)
    places = index.reshape(-1)
    places = torch.where(places < 0, places + flat.numel(), places)
    if accumulate:
        flat.scatter_add_(0, places, source.reshape(-1))
    else:
        flat.scatter_(0, places, source.reshape(-1))
    if not self.is_contiguous():
        self.copy_(flat.reshape(self.shape))
    return self


_OVERFLOW = -2


def _repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    ends = repeats.cumsum(0)
    total = 0
    if repeats.numel() > 0:
        # The sum of numbers that are not negative is negative where it overflows first.
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


def _of_flat_places() -> list[Row]:
    """Operators whose places count through the whole tensor."""
    return [
        *(
            composed(
                "put_",
                _put_,
                conditions=[
                    "numel(index) == numel(source)",
                    "numel(self) > 0 || numel(index) == 0",
                ],
                requires={
                    "accumulate": str(accumulate),
                    "index": "dtype int64",
                    "source": "dtype of self",
                },
                # Which of several elements for one place stays is for PyTorch to forbid.
                alert="" if accumulate else "put_",
                reports="IndexError",
                family="indexing",
            )
            for accumulate in (True, False)
        ),
        composed(
            "repeat_interleave.Tensor",
            _repeat_interleave,
            conditions=["dims(repeats) == 1"],
            requires={"repeats": "dtype int32 int64"},
            family="indexing",
        ),
    ]


def _nonzero_static(self: Tensor, size: int, fill_value: int) -> Tensor:
    places = self.nonzero()[:size]
    padding = torch.full(
        [size - places.size(0), self.dim()], fill_value, dtype=torch.int64, device=self.device
    )
    return torch.cat([places, padding])


def _masked_select(self: Tensor, mask: Tensor) -> Tensor:
    x, m = torch.broadcast_tensors(self, mask)
    places = m.reshape(-1).nonzero().reshape(-1)
    selected: Tensor = x.reshape(-1).index_select(0, places)
    return selected


def _masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    m = mask.expand(self.shape).reshape(-1)
    counts = m.cumsum(0)
    if m.numel() > 0:
        require(int(counts[-1].item()) <= source.numel())
    places = torch.clamp(counts - 1, 0)
    if source.numel() > 0 and m.numel() > 0:
        what = source.reshape(-1).index_select(0, places)
        self.copy_(torch.where(m, what, self.reshape(-1)).reshape(self.shape))
    return self


def _with_masks() -> list[Row]:
    """Operators for elements that are not zero, or that a mask names."""
    return [
        composed(
            "nonzero_static nonzero_static.out",
            _nonzero_static,
            conditions=["size >= 0"],
            family="indexing",
        ),
        composed(
            "masked_select masked_select.out",
            _masked_select,
            requires={"mask": "dtype bool"},
            family="indexing",
        ),
        composed(
            "masked_scatter_",
            _masked_scatter_,
            requires={"mask": "dtype bool", "source": "dtype of self"},
            family="indexing",
        ),
    ]
