"""Decompositions of random operators, with the same draws as on the CPU: normal numbers with means
and deviations in tensors, and categories with weights.

As on CPU, values in tensors are checked, which synchronizes with the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import COMPLEX, FLOATS, Definition
from torch_outboard.ops.symbolic import (
    SymBool,
    SymFloat,
    SymInt,
    SymTensor,
    has_other_dtype,
    ints,
    same_dtype,
)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *_normals(),
        *_multinomials(),
        decomposition(
            "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
            lambda self, lower, upper: leaky_relu(self, (float(lower) + float(upper)) / 2),
            dtypes=FLOATS,
            condition=lambda self, noise, training: ~training & (noise.shape == self.shape),
        ),
        decomposition("normal_", _normal_, dtypes=COMPLEX, condition=_std_is_valid),
        decomposition("uniform_", _uniform_, dtypes=COMPLEX),
    ]


# ---- Normal and uniform numbers


def _normal_(self: Tensor, mean: float, std: float, generator: torch.Generator | None) -> Tensor:
    # Real and imaginary part have half of the variance each.
    torch.view_as_real(self).normal_(mean, std / math.sqrt(2), generator=generator)
    return self


def _uniform_(self: Tensor, from_: float, to: float, generator: torch.Generator | None) -> Tensor:
    torch.view_as_real(self).uniform_(from_, to, generator=generator)
    return self


def _normal_of_means(mean: Tensor, std: float, generator: torch.Generator | None) -> Tensor:
    result = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device)
    return result.normal_(0.0, std, generator=generator).add_(mean)


def _normal_of_both(mean: Tensor, std: Tensor, generator: torch.Generator | None) -> Tensor:
    require(std.numel() == 0 or bool((std.min() >= 0).item()))
    shape = torch.broadcast_tensors(mean, std)[0].shape
    result = torch.empty(shape, dtype=mean.dtype, device=mean.device)
    return result.normal_(0.0, 1.0, generator=generator).mul_(std).add_(mean)


def _normal_of_deviations(mean: float, std: Tensor, generator: torch.Generator | None) -> Tensor:
    # As on CPU, the mean is rounded to the dtype first.
    means = torch.full([], mean, dtype=std.dtype, device=std.device)
    return _normal_of_both(means, std, generator)


def _std_is_valid(std: SymFloat) -> SymBool:
    return std >= 0


def _normals() -> list[Definition]:
    def normal(
        overload: str, body: Callable[..., Tensor], condition: Callable[..., SymBool] | None
    ) -> Definition:
        return decomposition(f"normal.{overload}", body, dtypes=FLOATS, condition=condition)

    return [
        normal("Tensor_float", _normal_of_means, _std_is_valid),
        # The host serves given results of another dtype, and means that broadcast to them.
        normal(
            "Tensor_float_out",
            _normal_of_means,
            lambda mean, std, out: (
                _std_is_valid(std) & same_dtype(out, mean) & (out.shape == mean.shape)
            ),
        ),
        normal("float_Tensor", _normal_of_deviations, None),
        normal("float_Tensor_out", _normal_of_deviations, lambda std, out: same_dtype(out, std)),
        normal("Tensor_Tensor", _normal_of_both, lambda std: has_other_dtype(std, *COMPLEX)),
        normal(
            "Tensor_Tensor_out",
            _normal_of_both,
            lambda mean, std, out: has_other_dtype(std, *COMPLEX) & same_dtype(out, mean),
        ),
    ]


# ---- Categories with weights


def _require_weights(x: Tensor) -> None:
    require(bool(torch.logical_and(x.max() < float("inf"), x.min() >= 0).item()))
    require(not (x.sum(-1) == 0).any().item())


def _draw_once(self: Tensor, num_samples: int, generator: torch.Generator | None) -> Tensor:
    # Exponential race: the largest weight / exponential number wins.
    _require_weights(self)
    race = self / torch.empty_like(self).exponential_(1.0, generator=generator)
    if num_samples == 1:
        return race.argmax(-1, True)
    return race.topk(num_samples)[1]


def _draw_again(self: Tensor, num_samples: int, generator: torch.Generator | None) -> Tensor:
    _require_weights(self)
    sums = self.to(torch.float64).cumsum(-1)
    total = sums.narrow(-1, self.size(-1) - 1, 1)
    draws = torch.empty([*self.shape[:-1], num_samples], dtype=torch.float64, device=self.device)
    draws.uniform_(0.0, 1.0, generator=generator)
    # Rounding must not give the total itself.
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(draws * total, below), right=True)


def _has_weights(self: SymTensor, num_samples: SymInt) -> SymBool:
    return (
        (self.dim() > 0)
        & (self.dim() <= 2)
        & (num_samples > 0)
        & (self.numel() > 0)
        & (self.size(-1) <= 2**24)
    )


def _draws_once(self: SymTensor, num_samples: SymInt, replacement: SymBool) -> SymBool:
    enough = num_samples <= self.size(-1)
    return _has_weights(self, num_samples) & (~replacement | (num_samples == 1)) & enough


def _draws_again(self: SymTensor, num_samples: SymInt, replacement: SymBool) -> SymBool:
    return _has_weights(self, num_samples) & replacement & (num_samples > 1)


def _keeps_its_shape(self: SymTensor, num_samples: SymInt, out: SymTensor) -> SymBool:
    """Whether `out` needs no resizing, about which only the host's kernel warns."""
    shape = self.shape[:-1] + ints((num_samples,))
    return (out.numel() == 0) | (out.shape == shape)


def _multinomials() -> list[Definition]:
    def multinomial(
        body: Callable[..., Tensor], served: Callable[..., SymBool]
    ) -> list[Definition]:
        def into(
            self: SymTensor, num_samples: SymInt, replacement: SymBool, out: SymTensor
        ) -> SymBool:
            keeps = _keeps_its_shape(self, num_samples, out)
            return served(self, num_samples, replacement) & keeps

        return [
            decomposition("multinomial", body, dtypes=FLOATS, condition=served),
            decomposition("multinomial.out", body, dtypes=FLOATS, condition=into),
        ]

    return [*multinomial(_draw_once, _draws_once), *multinomial(_draw_again, _draws_again)]
