"""Time of `(x * y + z).relu().sum()` on ten million floats, on a device against CPU.

    python -m benchmarks.pointwise_chain [--rounds 21] [names...]

The second piece of work gives CPU results that are allocated beforehand: it measures the
computation without the cost of fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.command import run_as_command
from benchmarks.paired import Work

ELEMENTS = 10_000_000


def _operands(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y, z = (torch.randn(ELEMENTS).to(device) for _ in range(3))
    return x, y, z


def chain(device: str) -> Callable[[], object]:
    x, y, z = _operands(device)
    return lambda: (x * y + z).relu().sum()


def chain_against_out(device: str) -> Callable[[], object]:
    if device != "cpu":
        return chain(device)
    x, y, z = _operands(device)
    product, total, positive = (torch.empty(ELEMENTS) for _ in range(3))

    def run() -> object:
        torch.mul(x, y, out=product)
        torch.add(product, z, out=total)
        torch.clamp_min(total, 0, out=positive)
        return positive.sum()

    return run


WORKS: dict[str, Work] = {
    "chain of 1e7 floats": chain,
    "chain of 1e7 floats, CPU with out=": chain_against_out,
}

if __name__ == "__main__":
    run_as_command(__doc__ or "", "benchmarks.pointwise_chain", WORKS)
