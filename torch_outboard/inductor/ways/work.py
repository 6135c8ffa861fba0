"""What a usual call of a graph takes, where calls differ in their work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean, median

# The work of a call, and the seconds that it took.
Sample = tuple[float, float]


def mean_work(samples: Iterable[Sample]) -> float:
    """That of a usual call."""
    return fmean(work for work, _ in samples)


def seconds_at(work: float, samples: Sequence[Sample]) -> float:
    """What a call of so much work takes, by calls of the same way.

    The least time, if their work was the same. Else it is read off a line whose slope is the median
    of those between two calls, and from which half of the calls differ by more either way, so that
    calls in which the machine had other things to do do not count. (H. Theil, "A rank-invariant
    method of linear and polynomial regression analysis", 1950; P. K. Sen, "Estimates of the
    regression coefficient based on Kendall's tau", 1968.)
    """
    works = {each for each, _ in samples}
    if len(works) == 1:
        return work / works.pop() * min(seconds for _, seconds in samples)
    slope = median((s - r) / (w - v) for (v, r), (w, s) in combinations(samples, 2) if v != w)
    return median(seconds + slope * (work - each) for each, seconds in samples)
