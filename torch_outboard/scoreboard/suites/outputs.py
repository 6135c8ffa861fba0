"""Tensors to give as `out=`: of the right size, with gaps, too large, empty, of a wrong dtype."""

import math
from collections.abc import Callable

import torch


def filled(tensor: torch.Tensor) -> torch.Tensor:
    """With a content that no operator should leave or read."""
    return tensor.fill_(float("nan") if tensor.is_floating_point() or tensor.is_complex() else 1)


def exact_out(like: torch.Tensor, device: torch.device) -> torch.Tensor:
    out = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=device)
    return filled(out)


def strided_out(like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The right size, dimensions in reverse order, every other element, an offset of one.

    There is room behind it: kernels that write as if there were no gaps do no harm.
    """
    sizes = list(reversed(like.size()))
    if not sizes:
        return filled(torch.empty(3, dtype=like.dtype, device=device))[1]
    sizes[-1] = 2 * sizes[-1] + 1
    count = math.prod(sizes)
    memory = filled(torch.empty(2 * count + 64, dtype=like.dtype, device=device))
    out = memory[:count].view(sizes)[..., 1::2]
    return out.permute(list(reversed(range(like.dim()))))


def gaps_of(out: torch.Tensor) -> torch.Tensor:
    """The gaps of `strided_out` between and behind the elements, on CPU."""
    everything = torch.empty(0, dtype=out.dtype, device=out.device).set_(out.untyped_storage())
    indices = torch.arange(everything.numel()).as_strided(
        out.size(), out.stride(), out.storage_offset()
    )
    kept = torch.ones(everything.numel(), dtype=torch.bool)
    kept[indices.reshape(-1)] = False
    return everything.cpu()[kept]


def larger_out(like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A wrong size: the operator has to resize it and warn."""
    sizes = [size + 1 for size in like.size()] or [3]
    return filled(torch.empty(sizes, dtype=like.dtype, device=device))


def empty_out(like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """No elements: the operator has to resize it without a warning."""
    return torch.empty(0, dtype=like.dtype, device=device)


def wrong_dtype_out(like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A dtype that most results cannot be cast to safely."""
    dtype = torch.int32 if like.is_floating_point() or like.is_complex() else torch.bool
    return torch.ones(like.size(), dtype=dtype, device=device)


OUTS: dict[str, Callable[[torch.Tensor, torch.device], torch.Tensor]] = {
    "exact": exact_out,
    "strided": strided_out,
    "larger": larger_out,
    "empty": empty_out,
    "wrong dtype": wrong_dtype_out,
}
