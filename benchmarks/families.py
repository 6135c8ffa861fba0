"""Kernels of one driver against those of another and against CPU eager, by family of operators.

    python -m benchmarks.families [--reference ocl] [--rounds 9] [--save] [families...]

Each operator on 4 Ki, 256 Ki and 4 Mi elements, by device kernels alone. A process has one driver,
so each driver and CPU have a process, and they take turns, in pairs (paired.py). PoCL gets as many
threads as this process has processors. The result is the median ratio of each family.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.paired import Ratio, Work, compare, save

aten = torch.ops.aten
SIZES = {"4 Ki": 64, "256 Ki": 512, "4 Mi": 2048}  # rows, and as many columns
ROUND_SECONDS = 0.02

Prepare = Callable[[int, str], Callable[[], object]]


def _random(side: int, device: str, count: int = 1) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(side, side).to(device) for _ in range(count)]


def _of(function: Callable[..., object], operands: int = 1) -> Prepare:
    """`function` of matrices; the result is a new tensor."""

    def prepare(side: int, device: str) -> Callable[[], object]:
        tensors = _random(side, device, operands)
        return lambda: function(*tensors)

    return prepare


def _indexed(function: Callable[[Tensor, Tensor, Tensor], object], whole: bool = False) -> Prepare:
    """`function` of a matrix, indices of its rows (or per element), and another matrix."""

    def prepare(side: int, device: str) -> Callable[[], object]:
        x, y = _random(side, device, 2)
        places = torch.randint(0, side, (side, side) if whole else (side,)).to(device)
        return lambda: function(x, places, y)

    return prepare


def _softmax_backward(name: str) -> Prepare:
    def prepare(side: int, device: str) -> Callable[[], object]:
        (x,) = _random(side, device)
        output = getattr(aten, f"_{name}")(x, 1, False)
        backward = getattr(aten, f"_{name}_backward_data")
        return lambda: backward(x, output, 1, torch.float32)

    return prepare


def _layer_norm(backward: bool) -> Prepare:
    def prepare(side: int, device: str) -> Callable[[], object]:
        x, gradient = _random(side, device, 2)
        weight, bias = (torch.randn(side).to(device) for _ in range(2))
        if not backward:
            return lambda: aten.native_layer_norm(x, [side], weight, bias, 1e-5)
        _, mean, rstd = aten.native_layer_norm(x, [side], weight, bias, 1e-5)
        given = (gradient, x, [side], mean, rstd, weight, bias, [True] * 3)
        return lambda: aten.native_layer_norm_backward(*given)

    return prepare


def _images(side: int, device: str) -> Tensor:
    """Batches of 4 with 16 channels, as many elements as the matrix."""
    (x,) = _random(side, device)
    return x.reshape(4, 16, side // 8, side // 8)


def _batch_norm(training: bool) -> Prepare:
    def prepare(side: int, device: str) -> Callable[[], object]:
        x = _images(side, device)
        weight, bias, mean = (torch.zeros(16, device=device) for _ in range(3))
        variance = torch.ones(16, device=device)
        return lambda: torch.batch_norm(x, weight, bias, mean, variance, training, 0.1, 1e-5, False)

    return prepare


def _group_norm(side: int, device: str) -> Callable[[], object]:
    x = _images(side, device)
    weight, bias = (torch.ones(16, device=device) for _ in range(2))
    return lambda: torch.nn.functional.group_norm(x, 4, weight, bias)


def _rms_norm(side: int, device: str) -> Callable[[], object]:
    (x,), weight = _random(side, device), torch.ones(side, device=device)
    return lambda: torch.nn.functional.rms_norm(x, (side,), weight)


OPERATORS: dict[str, dict[str, Prepare]] = {
    "pointwise": {
        "add": _of(torch.add, 2),
        "div": _of(torch.div, 2),
        "exp": _of(torch.exp),
        "log": _of(torch.log),
        "tanh": _of(torch.tanh),
        "sin": _of(torch.sin),
        "gelu": _of(aten.gelu),
        "pow": _of(torch.pow, 2),
        "where": _of(lambda x, y: torch.where(x > 0, x, y), 2),
        "transposed add": _of(lambda x, y: x.t() + y, 2),
    },
    "reductions": {
        "sum": _of(torch.sum),
        "max": _of(torch.amax),
        "norm": _of(torch.linalg.vector_norm),
        "sum of rows": _of(lambda x: x.sum(1)),
        "sum of columns": _of(lambda x: x.sum(0)),
        "mean of rows": _of(lambda x: x.mean(1)),
        "variance of rows": _of(lambda x: x.var(1)),
        "argmax of rows": _of(lambda x: x.argmax(1)),
    },
    "softmax": {
        "softmax of rows": _of(lambda x: x.softmax(1)),
        "softmax of columns": _of(lambda x: x.softmax(0)),
        "log_softmax of rows": _of(lambda x: x.log_softmax(1)),
        "gradient of softmax": _softmax_backward("softmax"),
        "gradient of log_softmax": _softmax_backward("log_softmax"),
        "logsumexp of rows": _of(lambda x: x.logsumexp(1)),
    },
    "norms": {
        "layer norm": _layer_norm(False),
        "gradients of layer norm": _layer_norm(True),
        "batch norm": _batch_norm(False),
        "batch norm, training": _batch_norm(True),
        "group norm": _group_norm,
        "rms norm": _rms_norm,
    },
    "indexing": {
        "gather": _indexed(lambda x, i, y: x.gather(1, i), True),
        "scatter_add": _indexed(lambda x, i, y: x.scatter_add(1, i, y), True),
        "index_select": _indexed(lambda x, i, y: x.index_select(0, i)),
        "embedding": _indexed(lambda x, i, y: aten.embedding(x, i)),
        "gradient of embedding": _indexed(
            lambda x, i, y: aten.embedding_dense_backward(y, i, y.size(0), -1, False)
        ),
        "index_put": _indexed(lambda x, i, y: x.index_put_((i,), y)),
        "index_add": _indexed(lambda x, i, y: x.index_add_(0, i, y)),
        "masked_fill": _of(lambda x, y: x.masked_fill(y > 0, 0.0), 2),
    },
}


def _sized(prepare: Prepare, side: int) -> Work:
    return lambda device: prepare(side, device)


FAMILIES: dict[str, dict[str, Work]] = {
    family: {
        f"{name}, {size}": _sized(prepare, side)
        for name, prepare in operators.items()
        for size, side in SIZES.items()
    }
    for family, operators in OPERATORS.items()
}
WORKS = {name: work for family in FAMILIES.values() for name, work in family.items()}


def settings(driver: str) -> dict[str, str]:
    return {
        "OUTBOARD_DRIVER": driver,
        "OUTBOARD_PLACEMENT": "device",
        "OUTBOARD_FALLBACK_COPIED": "allow",
        "POCL_MAX_PTHREAD_COUNT": str(len(os.sched_getaffinity(0))),
    }


def medians(results: list[Ratio], names: list[str]) -> str:
    """Ratios of all sizes, then of each."""
    shown = [statistics.median(r.ratio for r in results if r.name in names)]
    for size in SIZES:
        of_size = (r.ratio for r in results if r.name in names and r.name.endswith(f", {size}"))
        shown.append(statistics.median(of_size))
    return " | ".join(f"{ratio:.2f}" for ratio in shown)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help=f"of: {', '.join(FAMILIES)}")
    parser.add_argument("--device", default="host", help="a driver")
    parser.add_argument("--reference", action="append", help="a driver, or cpu; default: ocl, cpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    if unknown := set(options.families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    families = options.families or list(FAMILIES)
    names = [name for family in families for name in FAMILIES[family]]
    saved: list[Ratio] = []
    tables = ""
    for reference in options.reference or ["ocl", "cpu"]:
        print(f"\n{options.device} against {reference}", flush=True)
        results = compare(
            names,
            device=options.device,
            reference=reference,
            rounds=options.rounds,
            module="benchmarks.families",
            environment=settings(options.device),
            reference_environment=None if reference == "cpu" else settings(reference),
        )
        tables += f"\n| time of {options.device} / {reference}, median | all | "
        tables += " | ".join(SIZES) + " |\n|---|---|---|---|---|\n"
        for family in families:
            tables += f"| {family} | {medians(results, list(FAMILIES[family]))} |\n"
        saved += [replace(r, name=f"{r.name}, {options.device} / {reference}") for r in results]
    print(tables)
    if options.save:
        print("written to", save("families", saved))


if __name__ == "__main__":
    main()
