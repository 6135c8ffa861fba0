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
    """Stands for the measurement: runs the work by both ways and answers what a test wants."""

    def __init__(self, *ratios: float, training: float = 1.0) -> None:
        self.ratios, self.training = list(ratios), training
        self.compared = 0

    def __call__(self, run, take, synchronize) -> tuple[float, float]:
        self.compared += 1
        for way in ("device", "host"):
            take(way)
            run()
            synchronize()
        return (self.ratios.pop(0) if self.ratios else self.training), 1.0
