"""Decompositions of random operators, with the same draws as on the CPU: normal numbers with means
and deviations in tensors, and categories with weights.

As on CPU, values in tensors are checked, which synchronizes with the device.
"""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import COMPLEX, FLOATS, Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    SymTensor,
    ints,
    same_dtype,
)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    normal = partial(decomposition, dtypes=FLOATS)
    return [
        normal("normal.Tensor_float", _normal_of_means),
        # The host serves given results of another dtype, and means that broadcast to them.
        normal(
            "normal.Tensor_float_out",
            _normal_of_means,
            condition=lambda mean, out: same_dtype(out, mean) & (out.shape == mean.shape),
        ),
        normal("normal.float_Tensor", _normal_of_deviations),
        normal(
            "normal.float_Tensor_out",
            _normal_of_deviations,
            condition=lambda std, out: same_dtype(out, std),
        ),
        normal("normal.Tensor_Tensor", _normal_of_both),
        normal(
            "normal.Tensor_Tensor_out",
            _normal_of_both,
            condition=lambda mean, out: same_dtype(out, mean),
        ),
        decomposition("multinomial", _multinomial, dtypes=FLOATS),
        decomposition("multinomial.out", _multinomial, dtypes=FLOATS, condition=_keeps_its_shape),
        decomposition(
            "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
            lambda self, lower, upper: leaky_relu(self, (float(lower) + float(upper)) / 2),
            dtypes=FLOATS,
            condition=lambda self, noise, training: ~training & (noise.shape == self.shape),
        ),
        decomposition("normal_", _normal_, dtypes=COMPLEX),
        decomposition("uniform_", _uniform_, dtypes=COMPLEX),
    ]


# ---- Normal and uniform numbers


def _normal_(self: Tensor, mean: float, std: float, generator: torch.Generator | None) -> Tensor:
    require(std >= 0)
    # Real and imaginary part have half of the variance each.
    torch.view_as_real(self).normal_(mean, std / math.sqrt(2), generator=generator)
    return self


def _uniform_(self: Tensor, from_: float, to: float, generator: torch.Generator | None) -> Tensor:
    torch.view_as_real(self).uniform_(from_, to, generator=generator)
    return self


def _normal_of_means(mean: Tensor, std: float, generator: torch.Generator | None) -> Tensor:
    require(std >= 0)
    result = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device)
    return result.normal_(0.0, std, generator=generator).add_(mean)


def _normal_of_both(mean: Tensor, std: Tensor, generator: torch.Generator | None) -> Tensor:
    require(not std.is_complex() and (std.numel() == 0 or bool((std.min() >= 0).item())))
    shape = torch.broadcast_tensors(mean, std)[0].shape
    result = torch.empty(shape, dtype=mean.dtype, device=mean.device)
    return result.normal_(0.0, 1.0, generator=generator).mul_(std).add_(mean)


def _normal_of_deviations(mean: float, std: Tensor, generator: torch.Generator | None) -> Tensor:
    # As on CPU, the mean is rounded to the dtype first.
    means = torch.full([], mean, dtype=std.dtype, device=std.device)
    return _normal_of_both(means, std, generator)


# ---- Categories with weights


def _multinomial(
    self: Tensor, num_samples: int, replacement: bool, generator: torch.Generator | None
) -> Tensor:
    require(0 < self.dim() <= 2 and num_samples > 0 and self.numel() > 0)
    require(self.size(-1) <= 2**24 and (replacement or num_samples <= self.size(-1)))
    require(bool(torch.logical_and(self.max() < float("inf"), self.min() >= 0).item()))
    require(not (self.sum(-1) == 0).any().item())
    if not replacement or num_samples == 1:
        # Exponential race: the largest weight / exponential number wins.
        race = self / torch.empty_like(self).exponential_(1.0, generator=generator)
        return race.argmax(-1, True) if num_samples == 1 else race.topk(num_samples)[1]
    sums = self.to(torch.float64).cumsum(-1)
    total = sums.narrow(-1, self.size(-1) - 1, 1)
    draws = torch.empty([*self.shape[:-1], num_samples], dtype=torch.float64, device=self.device)
    draws.uniform_(0.0, 1.0, generator=generator)
    # Rounding must not give the total itself.
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(draws * total, below), right=True)


def _keeps_its_shape(self: SymTensor, num_samples: SymInt, out: SymTensor) -> SymBool:
    """Whether `out` needs no resizing, about which only the host's kernel warns."""
    shape = self.shape[:-1] + ints((num_samples,))
    return (out.numel() == 0) | (out.shape == shape)
