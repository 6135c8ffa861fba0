"""Compares indices of equal values: which of them is chosen, or comes first, is arbitrary on CPU.

What `sort`, `topk`, `mode` and others return as indices is compared by the values there, and
gradients by what arrives at equal values together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard.scoreboard.comparison.differences import to_plain_cpu, value_difference

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput


def _signature(parameters: str) -> inspect.Signature:
    scope: dict[str, Any] = {}
    exec(f"def function({parameters}): pass", scope)
    return inspect.signature(scope["function"])


@dataclass(frozen=True)
class Rule:
    """How an entry is called.

    Args:
        parameters: after the input, as in Python, with `dim` and, where it has them, `stable` and
            `keepdim`.
        indices: which result holds indices, or None.
        distinct: no index comes twice along the dimension.
    """

    parameters: str
    indices: int | None
    distinct: bool = False


RULES = {
    "sort": Rule("dim=-1, descending=False, stable=False", 1, distinct=True),
    "argsort": Rule("dim=-1, descending=False, stable=False", 0, distinct=True),
    "msort": Rule("dim=0", None),
    "topk": Rule("k, dim=-1, largest=True, sorted=True", 1, distinct=True),
    "kthvalue": Rule("k, dim=-1, keepdim=False", 1),
    "mode": Rule("dim=-1, keepdim=False", 1),
}


@dataclass(frozen=True)
class Ties:
    """The freedom of results between two right calls of a sample."""

    rule: Rule
    input: torch.Tensor
    dim: int
    keepdim: bool

    def index_difference(self, expected: torch.Tensor, actual: torch.Tensor) -> str | None:
        """None if different indices hold the same values."""
        x = self.input.reshape(1) if self.input.dim() == 0 else self.input
        want, got = (to_plain_cpu(t) for t in (expected, actual))
        if self.input.dim() == 0:
            want, got = want.reshape(1), got.reshape(1)
        elif not self.keepdim:
            want, got = want.unsqueeze(self.dim), got.unsqueeze(self.dim)
        if got.numel() == 0:
            return None
        if got.min() < 0 or got.max() >= x.size(self.dim):
            return "values: indices are out of range"
        if self.rule.distinct and (got.sort(self.dim)[0].diff(dim=self.dim) == 0).any():
            return "values: an index comes twice"
        difference = value_difference(x.gather(self.dim, want), x.gather(self.dim, got))
        return difference and f"values at the indices: {difference.removeprefix('values: ')}"

    def gradient_difference(self, expected: torch.Tensor, actual: torch.Tensor) -> str | None:
        """None if equal values got the same gradients, in whatever order."""
        x = self.input.reshape(1) if self.input.dim() == 0 else self.input
        sides = []
        for gradient in (expected, actual):
            plain = to_plain_cpu(gradient).reshape(x.shape)
            by_gradient = plain.sort(self.dim)
            by_value = x.gather(self.dim, by_gradient[1]).sort(dim=self.dim, stable=True)
            sides.append(by_gradient[0].gather(self.dim, by_value[1]))
        return value_difference(*sides)


def ties_of(op: OpInfo, sample: SampleInput) -> Ties | None:
    """None where the call leaves nothing open."""
    rule = RULES.get(op.full_name)
    if rule is None or not isinstance(sample.input, torch.Tensor) or sample.input.is_complex():
        return None
    given = _signature(rule.parameters).bind(*sample.args, **sample.kwargs)
    given.apply_defaults()
    if given.arguments.get("stable"):
        return None
    keepdim = given.arguments.get("keepdim", True)
    return Ties(rule, to_plain_cpu(sample.input), given.arguments["dim"], keepdim)


def tie_check(ties: Ties | None, backward: bool = False) -> Callable[..., str | None] | None:
    """Compares result `number` once more if its values differ from CPU's (`tree_difference`)."""
    if ties is None:
        return None

    def again(number: int, expected: torch.Tensor, actual: torch.Tensor) -> str | None:
        if backward:
            return ties.gradient_difference(expected, actual)
        if number == ties.rule.indices:
            return ties.index_difference(expected, actual)
        return value_difference(expected, actual)

    return again
