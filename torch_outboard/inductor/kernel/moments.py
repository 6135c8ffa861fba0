"""Mean and variance in one loop: source of their accumulators.

A result is the mean, the sum of squared distances from it, and the count. Chan's formula combines
two results (Chan, Golub and LeVeque, 1979). Work-items of a GPU add values by Welford's formula
(1962). On a processor, its division per vector would cost more than the rest of the loop. So a
processor sums a run of values as distances from the first of them, plain and squared, and combines
the run into the result at its end. Runs are short, so an outlying first value costs few digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch_outboard.inductor.kernel.loops import Accumulator
from torch_outboard.inductor.opencl.value_types import LANES

_PARTS = ("mean", "m_two", "count")
_RUN = 64


def _chan(kind: str, a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Statements, in a block, that combine the result b into a, for values of the type `kind`."""
    (mean, m_two, count), (other, other_two, other_count) = a, b
    zero = f"(({kind})(0))"
    return [
        f"{{ const {kind} total = {count} + {other_count};",
        f"const {kind} ratio = (total == {zero}) ? {zero} : {other_count} / total;",
        f"const {kind} delta = {other} - {mean};",
        f"{mean} += delta * ratio;",
        f"{m_two} += {other_two} + delta * delta * {count} * ratio;",
        f"{count} = total; }}",
    ]


class Moments:
    """Names and source of one result, for values of the type `kind`."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.names = [f"{name}_{part}" for part in _PARTS]
        self.marked = [f"{part}_{LANES}" for part in self.names]

    def accumulator(self) -> Accumulator:
        fold = partial(_chan, self.kind)
        return Accumulator([(name, self.kind, "0") for name in self.names], fold)

    def combine(self, *others: str) -> list[str]:
        """Statements, with marks of lanes, that combine another result into this one."""
        return _chan(f"{self.kind}{LANES}", self.marked, others)


class Welford(Moments):
    """Adds one value at a time."""

    def add(self, value: str) -> list[str]:
        mean, m_two, count = self.marked
        delta = f"{self.name}_delta_{LANES}"
        return [
            f"{count} += 1;",
            f"const {self.kind}{LANES} {delta} = {value} - {mean};",
            f"{mean} += {delta} / {count};",
            f"{m_two} += {delta} * ({value} - {mean});",
        ]


class ShiftedSums(Moments):
    """Adds runs of values, as distances from the first one."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name, kind)
        self.shift, self.sum, self.squares, self.taken = (
            f"{name}_{part}" for part in ("shift", "sum", "squares", "taken")
        )

    def add(self, value: str) -> list[str]:
        distance = f"{self.name}_distance_{LANES}"
        return [
            f"if ({self.taken}_{LANES} == 0) {self.shift}_{LANES} = {value};",
            f"const {self.kind}{LANES} {distance} = {value} - {self.shift}_{LANES};",
            f"{self.sum}_{LANES} += {distance};",
            f"{self.squares}_{LANES} += {distance} * {distance};",
            f"if (++{self.taken}_{LANES} == {_RUN}) {{",
            *self._close(),
            "}",
        ]

    def _close(self) -> list[str]:
        """Combines a run into the result."""
        t, total = f"{self.kind}{LANES}", f"{self.sum}_{LANES}"
        return [
            f"const {t} run = ({t})(({self.kind}){self.taken}_{LANES});",
            f"const {t} apart = {total} / run;",
            f"const {t} run_mean = {self.shift}_{LANES} + apart;",
            f"const {t} run_two = {self.squares}_{LANES} - {total} * apart;",
            *self.combine("run_mean", "run_two", "run"),
            f"{total} = 0; {self.squares}_{LANES} = 0; {self.taken}_{LANES} = 0;",
        ]

    def _fold_vector(self, lanes: int) -> list[str]:
        """Folds the lanes of a vector, which all have the same count."""
        mean, m_two, count = (f"{name}_{lanes}" for name in self.names)
        t, fold = self.kind, f"ob_fold_sum_{self.kind}{lanes}"
        scalars = [f"{name}_" for name in self.names]
        return [
            f"{{ const {t} lanes_mean = {fold}({mean}) / {lanes};",
            f"const {t}{lanes} apart = {mean} - lanes_mean;",
            f"const {t} lanes_two = {fold}({m_two} + apart * apart * {count});",
            f"const {t} lanes_count = {fold}({count});",
            *_chan(t, scalars, ("lanes_mean", "lanes_two", "lanes_count")),
            "}",
        ]

    def accumulator(self) -> Accumulator:
        result = super().accumulator()
        result.fold_vector = self._fold_vector
        of_run = (self.shift, self.sum, self.squares)
        result.inner = [(name, f"{self.kind}{LANES}", "0") for name in of_run]
        result.inner.append((self.taken, "int", "0"))
        result.finish = [f"if ({self.taken}_{LANES} > 0) {{", *self._close(), "}"]
        return result
