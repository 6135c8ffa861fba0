"""Calls to be measured, and a clock that answers what a test wants: for tests of tuning."""

from __future__ import annotations

import torch

from torch_outboard.tuning.representative_calls import Call


def call(overload: str, make, function) -> Call:
    def prepare(device, elements):
        x = make(elements, device=device)
        return lambda: function(x)

    return Call(overload, prepare)


ADD = call("aten::add.Tensor", torch.ones, lambda x: x + x)
SUM = call("aten::sum", torch.ones, torch.sum)


class Clock:
    """Stands for the measurement: runs the work by each way and answers what a test wants.

    Args:
        answers: seconds by the ways, in their order, for one piece of work after the other.
    """

    def __init__(self, *answers: tuple[float, ...]) -> None:
        self.answers = list(answers)

    def __call__(self, run, take, names, synchronize) -> dict[str, float]:
        for name in names:
            take(name)
            run()
            synchronize()
        return dict(zip(names, self.answers.pop(0), strict=True))
