"""Findings of the checks of an entry, and how many of its samples they look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failure:
    check: str
    sample: int
    reason: str


@dataclass
class Limits:
    """How many samples of an entry are looked at, spread evenly over all of them.

    With a `turn` each check looks at one of these alone, another one for the next number; with
    `most` at no more than so many.
    """

    forward: int = 60
    variants: int = 8
    backward: int = 12
    turn: int | None = None
    most: int = 0

    @property
    def complete(self) -> bool:
        """Whether all are looked at that a check wants."""
        return self.turn is None and not self.most

    def of(self, samples: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
        """Those that a check looks at, with their numbers."""
        chosen = list(spread(samples, min(count, self.most) if self.most else count))
        if self.turn is not None and chosen:
            chosen = [chosen[self.turn % len(chosen)]]
        return iter(chosen)


@dataclass
class EntryResult:
    """The findings of the checks of an entry.

    Args:
        samples: how many samples CPU could run.
        available: how many the database has.
        notes: what is worth knowing about PyTorch and no failure.
        warned_otherwise: calls that warned more or less often than on CPU, where that is counted.
        withheld: checks with calls that were left out.
        leaves_out: whether a call is not to be made, by its check, number and description.
        mark: is told which call comes next, in case that the process ends in it.
        only: the checks that are wanted; all if there are none.
    """

    samples: int = 0
    available: int = 0
    warned_otherwise: int = 0
    checks: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    withheld: set[str] = field(default_factory=set)
    only: frozenset[str] = frozenset()
    leaves_out: Callable[[str, int, str], bool] = lambda check, sample, label: False
    mark: Callable[[str, int, str], None] = lambda check, sample, label: None

    def wants(self, *checks: str) -> bool:
        return not self.only or not self.only.isdisjoint(checks)

    def begins(self, check: str, sample: int, label: str = "", also: Sequence[str] = ()) -> bool:
        """To be asked before a call that may end the process; False if it is not to be made.

        `also`: other checks that the call serves.
        """
        if not self.wants(check, *also):
            return False
        if self.leaves_out(check, sample, label):
            self.withheld.add(check)
            return False
        self.mark(check, sample, label)
        return True

    def add(self, check: str, sample: int, reason: str | None) -> None:
        """Records a check of a sample; every failure counts, since an exclusion may hide others."""
        if not self.wants(check):
            return
        self.checks.add(check)
        if reason:
            self.failures.append(Failure(check, sample, reason))


def spread(samples: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
    """At most `count` of the samples with their numbers, evenly spread."""
    stride = max(1, -(-len(samples) // count)) if count else len(samples) + 1
    yield from list(enumerate(samples))[::stride]
