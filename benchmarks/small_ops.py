"""The cost of one operator on one element, from Python: a device against the CPU.

python -m benchmarks.small_ops [--device host] [--rounds 31] [--save] [names...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

from benchmarks.paired import Work, compare, save


def _unary(function: Callable[[torch.Tensor], object], *shape: int) -> Work:
    def prepare(device: str) -> Callable[[], object]:
        x = torch.full(shape or (1,), 0.5, device=device)
        return lambda: function(x)

    return prepare


def _binary(function: Callable[[torch.Tensor, torch.Tensor], object], *shape: int) -> Work:
    def prepare(device: str) -> Callable[[], object]:
        x = torch.full(shape or (1,), 0.5, device=device)
        y = torch.full(shape or (1,), 0.25, device=device)
        return lambda: function(x, y)

    return prepare


def _addmm(device: str) -> Callable[[], object]:
    bias, x, weight = (torch.ones(shape, device=device) for shape in ((8,), (4, 8), (8, 8)))
    return lambda: torch.addmm(bias, x, weight)


def _where(device: str) -> Callable[[], object]:
    x = torch.ones(1, device=device)
    condition = x > 0
    return lambda: torch.where(condition, x, x)


def _layer_norm(device: str) -> Callable[[], object]:
    x, weight, bias = (torch.ones(shape, device=device) for shape in ((4, 8), (8,), (8,)))
    return lambda: torch.nn.functional.layer_norm(x, (8,), weight, bias)


WORKS: dict[str, Work] = {
    "x + y": _binary(lambda x, y: x + y),
    "x * 2.0": _unary(lambda x: x * 2.0),
    "x + 1": _unary(lambda x: x + 1),
    "1 - x": _unary(lambda x: 1 - x),
    "x.add_(y)": _binary(lambda x, y: x.add_(y)),
    "x.mul_(0.9)": _unary(lambda x: x.mul_(0.9)),
    "x > 0": _unary(lambda x: x > 0),
    "relu": _unary(torch.relu),
    "exp": _unary(torch.exp),
    "gelu": _unary(torch.nn.functional.gelu),
    "zero_": _unary(lambda x: x.zero_()),
    "where": _where,
    "sum": _unary(torch.sum, 4, 8),
    "mean over a dimension": _unary(lambda x: x.mean(1), 4, 8),
    "softmax": _unary(lambda x: torch.softmax(x, 1), 4, 8),
    "mm": _binary(torch.mm, 8, 8),
    "addmm": _addmm,
    "layer_norm": _layer_norm,
    # No typed kernel: boxed.
    "boxed: sgn": _unary(torch.sgn),
    "boxed: roll": _unary(lambda x: torch.roll(x, 1)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *WORKS], help="all by default")
    parser.add_argument("--device", default="host")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    results = compare(
        options.names or WORKS,
        device=options.device,
        rounds=options.rounds,
        module="benchmarks.small_ops",
    )
    if options.save:
        print("written to", save("small_ops", results))


if __name__ == "__main__":
    main()
