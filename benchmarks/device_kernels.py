"""Time of single operators on large tensors, on a device against CPU, by family.

    OUTBOARD_PLACEMENT=device python -m benchmarks.device_kernels --device ocl [families...]

Both sides write into results that were allocated beforehand, where the operator has such a form.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.paired import Ratio, Work, compare

aten = torch.ops.aten
ELEMENTS = 10_000_000
ROWS, COLUMNS = 4096, 1024  # of softmax and layer norm
WORDS, WIDTH, TOKENS = 32_000, 512, 8192  # of embeddings

Function = Callable[..., object]


def with_out(function: Function, *sizes: tuple[int, ...], device: str) -> Callable[[], object]:
    """`function` of random tensors, into a result made by its first call."""
    torch.manual_seed(0)
    tensors = [torch.randn(size).to(device) for size in sizes]
    out = function(*tensors)
    return lambda: function(*tensors, out=out)


def plain(function: Function, *sizes: tuple[int, ...], device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    tensors = [torch.randn(size).to(device) for size in sizes]
    return lambda: function(*tensors)


def softmax(name: str, size: tuple[int, ...], dim: int, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    values = torch.randn(size).to(device)
    forward, out = getattr(aten, f"_{name}").out, torch.empty_like(values)
    return lambda: forward(values, dim, False, out=out)


def softmax_backward(name: str, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    values = torch.randn(ROWS, COLUMNS).to(device)
    output = getattr(aten, f"_{name}")(values, 1, False)
    backward = getattr(aten, f"_{name}_backward_data").out
    into = {backward._schema.arguments[-1].name: torch.empty_like(values)}
    return lambda: backward(values, output, 1, torch.float32, **into)


def layer_norm(backward: bool, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    values, gradient = (torch.randn(ROWS, COLUMNS).to(device) for _ in range(2))
    weight, bias = (torch.randn(COLUMNS).to(device) for _ in range(2))
    result, mean, rstd = aten.native_layer_norm(values, [COLUMNS], weight, bias, 1e-5)
    if not backward:
        forward = aten.native_layer_norm.out
        outs = {"out0": result, "out1": mean, "out2": rstd}
        return lambda: forward(values, [COLUMNS], weight, bias, 1e-5, **outs)
    arguments = (gradient, values, [COLUMNS], mean, rstd, weight, bias, [True] * 3)
    return lambda: aten.native_layer_norm_backward(*arguments)


def embedding(backward: bool, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    weight = torch.randn(WORDS, WIDTH).to(device)
    indices = torch.randint(0, WORDS, (TOKENS,)).to(device)
    out = aten.embedding(weight, indices)
    if not backward:
        return lambda: aten.embedding.out(weight, indices, out=out)
    return lambda: aten.embedding_dense_backward(out, indices, WORDS, -1, False)


def copy(make: Callable[[torch.Tensor], torch.Tensor], device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    source = make(torch.randn(3000, 3000).to(device))
    target = torch.empty(source.shape, device=device)
    return lambda: target.copy_(source)


def at_indices(function: Function, size: tuple[int, ...], device: str) -> Callable[[], object]:
    """`function` of a matrix, of indices of its rows or columns, and of another matrix."""
    torch.manual_seed(0)
    values, indices = torch.randn(ROWS, COLUMNS), torch.randint(0, min(ROWS, COLUMNS), size)
    moved = values.to(device), indices.to(device), values.clone().to(device)
    return lambda: function(*moved)


def _many(function: Function, operands: int = 1) -> Work:
    return lambda device: with_out(function, *[(ELEMENTS,)] * operands, device=device)


def _integers(function: Function) -> Work:
    """`function` of dividends and of divisors that are not zero, which kernels check."""

    def make(device: str) -> Callable[[], object]:
        torch.manual_seed(0)
        x, y = (torch.randint(1, 1000, (ELEMENTS,), dtype=torch.int32) for _ in range(2))
        x, y = x.to(device), y.to(device)
        out = function(x, y)
        return lambda: function(x, y, out=out)

    return make


def _over_rows(function: Function) -> Work:
    return lambda device: plain(function, (ROWS, COLUMNS), device=device)


FAMILIES: dict[str, dict[str, Work]] = {
    "pointwise": {
        "add": _many(torch.add, 2),
        "mul": _many(torch.mul, 2),
        "div": _many(torch.div, 2),
        "exp": _many(torch.exp),
        "tanh": _many(torch.tanh),
        "sigmoid": _many(torch.sigmoid),
        "neg": _many(torch.neg),
        "sin": _many(torch.sin),
        "log1p": _many(torch.log1p),
        "fmod": _many(torch.fmod, 2),
        "floor_divide of integers": _integers(torch.floor_divide),
        "remainder of integers": _integers(torch.remainder),
        "gelu": _many(aten.gelu),
        "where": lambda device: plain(
            lambda x, y: torch.where(x > 0, x, y), (ELEMENTS,), (ELEMENTS,), device=device
        ),
    },
    "reduction": {
        "sum": lambda device: plain(torch.sum, (ELEMENTS,), device=device),
        "max": lambda device: plain(torch.max, (ELEMENTS,), device=device),
        "norm": lambda device: plain(torch.linalg.vector_norm, (ELEMENTS,), device=device),
        "sum of rows": _over_rows(lambda x: x.sum(1)),
        "sum of columns": _over_rows(lambda x: x.sum(0)),
        "variance of rows": _over_rows(lambda x: x.var(1)),
        "argmax of rows": _over_rows(lambda x: x.argmax(1)),
    },
    "softmax": {
        "softmax of rows": partial(softmax, "softmax", (ROWS, COLUMNS), 1),
        "log_softmax of rows": partial(softmax, "log_softmax", (ROWS, COLUMNS), 1),
        "softmax of short rows": partial(softmax, "softmax", (65536, 64), 1),
        "softmax of columns": partial(softmax, "softmax", (64, 64, COLUMNS), 1),
        "gradient of softmax": partial(softmax_backward, "softmax"),
        "gradient of log_softmax": partial(softmax_backward, "log_softmax"),
    },
    "layer norm": {
        "layer norm": partial(layer_norm, False),
        "gradients of layer norm": partial(layer_norm, True),
    },
    "embedding": {
        "embedding": partial(embedding, False),
        "gradient of embedding": partial(embedding, True),
    },
    "indexing": {
        "gather": lambda device: at_indices(
            lambda x, i, y: x.gather(1, i), (ROWS, COLUMNS), device
        ),
        "index_put": lambda device: at_indices(
            lambda x, i, y: x.index_put_((i,), y), (ROWS,), device
        ),
        "index_add": lambda device: at_indices(
            lambda x, i, y: x.index_add_(0, i, y), (ROWS,), device
        ),
    },
    "selection": {
        "topk": _over_rows(lambda x: x.topk(5)),
        "topk of 50": _over_rows(lambda x: x.topk(50)),
        "median": _over_rows(lambda x: x.median(1)),
    },
    "copy": {
        "copy": partial(copy, lambda x: x),
        "copy of a transpose": partial(copy, lambda x: x.t()),
        "copy of every other column": partial(copy, lambda x: x[:, ::2]),
        "bfloat16 to float32": partial(copy, lambda x: x.bfloat16()),
    },
}
WORKS = {name: work for family in FAMILIES.values() for name, work in family.items()}
ROUND_SECONDS = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help=f"of: {', '.join(FAMILIES)}")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    if unknown := set(options.families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    medians: dict[str, float] = {}
    for family in options.families or FAMILIES:
        print(f"\n{family}", flush=True)
        results: list[Ratio] = compare(
            FAMILIES[family],
            device=options.device,
            rounds=options.rounds,
            module="benchmarks.device_kernels",
        )
        medians[family] = statistics.median(result.ratio for result in results)
    print("\nMedian ratio per family: ", end="")
    print(", ".join(f"{family} {ratio:.2f}" for family, ratio in medians.items()))


if __name__ == "__main__":
    main()
