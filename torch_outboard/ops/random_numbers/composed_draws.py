"""Random numbers that are made of other operators' random numbers, with the same draws as the host
way: normal ones with means and deviations in tensors, and categories with weights.

What CPU checks in tensors is checked here, too, at the price of waiting for the device.
"""

from __future__ import annotations

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import COMPLEX, FLOATS, Row

# Of a result that was given; what converts values is the host's.
_SAME_DTYPE = "floating(out) && bytes(out) == bytes({})"
# multinomial resizes without a warning, which is the host's, too.
_FITS = "numel(out) == 0 || sizes(out) == {}"


def rows() -> list[Row]:
    """Every row."""
    return [
        *_normal("Tensor_float", "mean", "mean.shape", deviation="std"),
        *_normal("float_Tensor", "std", "std.shape"),
        *_normal("Tensor_Tensor", "mean", "torch.broadcast_tensors([mean, std])[0].shape"),
        *_multinomial(),
        composed(
            "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
            "return torch.leaky_relu(self, (float(lower) + float(upper)) / 2)",
            dtypes=FLOATS,
            conditions=["!training && sizes(noise) == sizes(self)"],
            family="random",
        ),
        composed(
            "normal_",
            """
            # Each part has half of the variance.
            torch.view_as_real(self).normal_(mean, std / 1.4142135623730951, generator=generator)
            return self
            """,
            dtypes=COMPLEX,
            conditions=["std >= 0"],
            family="random",
        ),
        composed(
            "uniform_",
            """
            torch.view_as_real(self).uniform_(from, to, generator=generator)
            return self
            """,
            dtypes=COMPLEX,
            family="random",
        ),
    ]


def _normal(form: str, first: str, shape: str, deviation: str = "") -> list[Row]:
    """normal.<form>, where the operand `first` says the dtype; `deviation` is a number."""
    if deviation:
        scaled = "normal_(0.0, std, generator=generator)"
    else:
        scaled = "normal_(0.0, 1.0, generator=generator).mul_(std)"
    # A number is rounded to the dtype first.
    offset = "mean"
    if form.startswith("float"):
        offset = f"torch.full([], mean, dtype={first}.dtype, device={first}.device)"
    body = f"""
        {"" if deviation else "assert std.numel() == 0 or bool((std.min() >= 0).item())"}
        result = torch.empty({shape}, dtype={first}.dtype, device={first}.device)
        return result.{scaled}.add_({offset})
    """
    conditions = [f"{deviation} >= 0"] if deviation else []
    given = [_SAME_DTYPE.format(first)]
    if deviation:
        given.append(f"sizes(out) == sizes({first})")  # means are repeated where it is larger
    return [
        composed(f"normal.{form}", body, dtypes=FLOATS, conditions=conditions, family="random"),
        composed(
            f"normal.{form}_out",
            body,
            dtypes=FLOATS,
            conditions=[*conditions, *given],
            family="random",
        ),
    ]


def _multinomial() -> list[Row]:
    checks = """
        assert bool(torch.logical_and(self.max() < float("inf"), self.min() >= 0).item())
        assert not bool((self.sum(-1) == 0).any().item())
    """
    # Exponential numbers run a race, which weights make shorter.
    race = """
        race = self / torch.empty_like(self).exponential_(1.0, generator=generator)
        if num_samples == 1:
            return race.argmax(-1, True)
        return race.topk(num_samples)[1]
    """
    intervals = """
        sums = self.to(torch.float64).cumsum(-1)
        total = sums.narrow(-1, self.size(-1) - 1, 1)
        shape = self.shape
        shape[-1] = num_samples
        draws = torch.empty(shape, dtype=torch.float64, device=self.device)
        draws.uniform_(0.0, 1.0, generator=generator)
        # Rounding must not make it the total itself.
        below = torch.nextafter(total, torch.zeros_like(total))
        return torch.searchsorted(sums, torch.minimum(draws * total, below), right=True)
    """
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
            checks + body,
            dtypes=FLOATS,
            conditions=[*conditions, *kind, *fits],
            family="random",
        )
        for overload, fits in (("multinomial", []), ("multinomial.out", [given]))
        for body, kind in ((race, once), (intervals, again))
    ]
