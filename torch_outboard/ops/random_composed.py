"""Random numbers that are made of other operators' random numbers, with the same draws as the host
way: normal ones with means and deviations in tensors, and categories with weights.

What CPU checks in tensors is checked here, too, at the price of waiting for the device.
"""

from __future__ import annotations

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import FLOATS, Row

# Of a result that was given; what converts values is the host's.
_SAME_DTYPE = "floating(out) && bytes(out) == bytes({})"


def rows() -> list[Row]:
    """Every row."""
    return [
        *_normal("Tensor_float", "mean", "mean.shape", "sizes(mean)", checked="std"),
        *_normal("float_Tensor", "std", "std.shape", "sizes(std)"),
        *_normal(
            "Tensor_Tensor",
            "mean",
            "torch.broadcast_tensors([mean, std])[0].shape",
            "broadcast(sizes(mean), sizes(std))",
        ),
        *_multinomial(),
        composed(
            "bernoulli.out",
            "return torch.empty_like(self).bernoulli_(self, generator=generator)",
            dtypes=FLOATS,
            conditions=[_SAME_DTYPE.format("self")],
            family="random",
        ),
    ]


def _normal(form: str, first: str, shape: str, sizes: str, checked: str = "") -> list[Row]:
    """normal.<form>, where the operand `first` says the dtype; `checked` is a number."""
    if checked:
        scaled = "normal_(0.0, std, generator=generator)"
    else:
        scaled = "normal_(0.0, 1.0, generator=generator).mul_(std)"
    # A number is rounded to the dtype first.
    offset = "mean"
    if form.startswith("float"):
        offset = f"torch.full([], mean, dtype={first}.dtype, device={first}.device)"
    body = f"""
        {"" if checked else "assert std.numel() == 0 or bool((std.min() >= 0).item())"}
        result = torch.empty({shape}, dtype={first}.dtype, device={first}.device)
        return result.{scaled}.add_({offset})
    """
    conditions = [f"{checked} >= 0"] if checked else []
    # A given result that is larger is filled by repetition, which is the host's.
    given = [_SAME_DTYPE.format(first), f"numel(out) == 0 || sizes(out) == {sizes}"]
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
    overloads = "multinomial multinomial.out"
    checks = """
        assert bool(torch.logical_and(self.max() < float("inf"), self.min() >= 0).item())
        assert not bool((self.sum(-1) == 0).any().item())
    """
    conditions = [
        "0 < dims(self) && dims(self) <= 2",
        "0 < num_samples && 0 < numel(self) && size(self, -1) <= 16777216",
    ]
    return [
        # Exponential numbers run a race, which weights make shorter.
        composed(
            overloads,
            checks
            + """
        race = self / torch.empty_like(self).exponential_(1.0, generator=generator)
        if num_samples == 1:
            return race.argmax(-1, True)
        return race.topk(num_samples)[1]
            """,
            dtypes=FLOATS,
            conditions=[
                *conditions,
                "!replacement || num_samples == 1",
                "num_samples <= size(self, -1)",
            ],
            family="random",
        ),
        composed(
            overloads,
            checks
            + """
        sums = self.to(torch.float64).cumsum(-1)
        total = sums.narrow(-1, self.size(-1) - 1, 1)
        shape = self.shape
        shape[-1] = num_samples
        draws = torch.empty(shape, dtype=torch.float64, device=self.device)
        draws.uniform_(0.0, 1.0, generator=generator)
        # Rounding must not make it the total itself.
        below = torch.nextafter(total, torch.zeros_like(total))
        return torch.searchsorted(sums, torch.minimum(draws * total, below), right=True)
            """,
            dtypes=FLOATS,
            conditions=[*conditions, "replacement && num_samples > 1"],
            family="random",
        ),
    ]
