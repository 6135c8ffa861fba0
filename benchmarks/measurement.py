"""A measured figure beside its target."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from benchmarks.paired import Ratio


@dataclass(frozen=True)
class Measurement:
    """A line of the table. The target is met if `value` is at most `target` and `high` at most
    `upper_end`."""

    name: str
    target: float
    value: float
    low: float
    high: float
    unit: str = "x CPU"
    upper_end: float | None = None
    commit: str = ""

    @property
    def met(self) -> bool:
        reaches = math.inf if self.upper_end is None else self.upper_end
        return self.value <= self.target and self.high <= reaches


def middle(name: str, target: float, results: list[Ratio]) -> Measurement:
    """The median of several ratios, between the smallest and the largest."""
    values = sorted(r.ratio for r in results)
    return Measurement(name, target, statistics.median(values), values[0], values[-1])


def table(measurements: list[Measurement], settings: dict[str, object]) -> str:
    lines = ["# Benchmarks", "", *(f"- {key}: {value}" for key, value in settings.items()), ""]
    lines += [
        "| measure | target | measured | 95 % interval | | commit |",
        "|---|---|---|---|---|---|",
    ]
    for m in measurements:
        interval = f"{m.low:.3g} to {m.high:.3g}" if m.low != m.high else ""
        met = "met" if m.met else "**missed**"
        lines.append(
            f"| {m.name} | {m.target:g} {m.unit} | {m.value:.3g} | {interval} | {met} "
            f"| {m.commit[:9]} |"
        )
    return "\n".join(lines) + "\n"
