"""Random numbers that are made of other operators' random numbers, with the same draws as on the
CPU: normal ones with means and deviations in tensors, and categories with weights.

What CPU checks in tensors is checked here, too, at the price of waiting for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import COMPLEX, FLOATS, Row

# Of a result that was given; what converts values is the host's.
_SAME_DTYPE = "floating(out) && bytes(out) == bytes({})"
# multinomial resizes without a warning, which is the host's, too.
_FITS = "numel(out) == 0 || sizes(out) == {}"


def rows() -> list[Row]:
    """Every row."""
    return [
        *_normal("Tensor_float", "mean", _normal_of_means, conditions=["std >= 0"]),
        *_normal("float_Tensor", "std", _normal_of_deviations),
        *_normal("Tensor_Tensor", "mean", _normal_of_both),
        *_multinomial(),
        composed(
            "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
            lambda self, lower, upper: leaky_relu(self, (float(lower) + float(upper)) / 2),
            dtypes=FLOATS,
            conditions=["!training && sizes(noise) == sizes(self)"],
            family="random",
        ),
        composed(
            "normal_",
            _normal_,
            dtypes=COMPLEX,
            conditions=["std >= 0"],
            family="random",
        ),
        composed(
            "uniform_",
            _uniform_,
            dtypes=COMPLEX,
            family="random",
        ),
    ]


def _normal_(self: Tensor, mean: float, std: float, generator: torch.Generator | None) -> Tensor:
    # Each part has half of the variance.
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
    # The number is rounded to the dtype first.
    means = torch.full([], mean, dtype=std.dtype, device=std.device)
    return _normal_of_both(means, std, generator)


def _normal(
    form: str, first: str, body: Callable[..., Tensor], conditions: Sequence[str] = ()
) -> list[Row]:
    """normal.<form>, where the operand `first` says the dtype."""
    requires = {"std": "dtype not complex64 complex128"} if form == "Tensor_Tensor" else {}
    given = [_SAME_DTYPE.format(first)]
    if form == "Tensor_float":
        given.append(f"sizes(out) == sizes({first})")  # means are repeated where it is larger
    return [
        composed(
            f"normal.{form}",
            body,
            dtypes=FLOATS,
            conditions=conditions,
            requires=requires,
            family="random",
        ),
        composed(
            f"normal.{form}_out",
            body,
            dtypes=FLOATS,
            conditions=[*conditions, *given],
            requires=requires,
            family="random",
        ),
    ]


def _require_weights(x: Tensor) -> None:
    require(bool(torch.logical_and(x.max() < float("inf"), x.min() >= 0).item()))
    require(not (x.sum(-1) == 0).any().item())


def _draw_once(self: Tensor, num_samples: int, generator: torch.Generator | None) -> Tensor:
    # Exponential numbers run a race, which weights make shorter.
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
    # Rounding must not make it the total itself.
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(draws * total, below), right=True)


def _multinomial() -> list[Row]:
    conditions = [
        "0 < dims(self) && dims(self) <= 2",
        "0 < num_samples && 0 < numel(self) && size(self, -1) <= 16777216",
    ]
    once = ["!replacement || num_samples == 1", "num_samples <= size(self, -1)"]
    again = ["replacement && num_samples > 1"]
    given = _FITS.format("sizes(self)[:-1] + [num_samples]")
    return [
        composed(
            overload,
            body,
            dtypes=FLOATS,
            conditions=[*conditions, *kind, *fits],
            family="random",
        )
        for overload, fits in (("multinomial", []), ("multinomial.out", [given]))
        for body, kind in ((_draw_once, once), (_draw_again, again))
    ]
