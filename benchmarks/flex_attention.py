"""Times of the kernels of compiled `flex_attention` against its compiled dense formula.

    python -m benchmarks.flex_attention [--device ocl] [--rounds 11] [--length 1024]

4 heads of 64 elements, in float32. For each kind of scores: a forward pass, and one with its
backward pass, by kernels and by the formula in turns, in one process, and the ratio of their times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from unittest.mock import patch

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torch_outboard
from benchmarks.paired import median_interval

HEADS, SIZE = 4, 64


def masks(length: int, device: str) -> dict[str, tuple[object, object]]:
    """`score_mod` and `block_mask` by name."""
    slope = torch.rand(HEADS, device=device)

    def mask(function: Callable[..., torch.Tensor]) -> object:
        return create_block_mask(function, None, None, length, length, device=device)

    causal = mask(lambda b, h, m, n: m >= n)
    return {
        "plain": (None, None),
        "soft cap": (lambda s, b, h, m, n: torch.tanh(s / 20) * 20, None),
        "causal": (None, causal),
        "ALiBi, causal": (lambda s, b, h, m, n: s + slope[h] * (n - m), causal),
        "window of 128": (None, mask(lambda b, h, m, n: (m >= n) & (m - n < 128))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=torch_outboard.device_name())
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--length", type=int, default=1024, help="of queries and keys")
    options = parser.parse_args()
    os.environ.setdefault("OUTBOARD_PLACEMENT", "device")
    from torch_outboard.inductor.lowerings import flex_kernels

    torch._dynamo.config.recompile_limit = 64
    q, k, v, gradient = (
        torch.randn(1, HEADS, options.length, SIZE, device=options.device) for _ in range(4)
    )
    inputs = [x.requires_grad_() for x in (q, k, v)]
    kernels = patch.object(flex_kernels, "DENSE_BYTES", 0)
    formula = patch.object(flex_kernels, "replace", lambda *_: False)
    for name, (score, mask) in masks(options.length, options.device).items():
        # Dynamo identifies compiled functions by their code, and would confuse the two.
        sides = []
        for using in (kernels, formula):

            def attend(score: object = score, mask: object = mask) -> torch.Tensor:
                return flex_attention(q, k, v, score_mod=score, block_mask=mask)

            attend.__code__ = attend.__code__.replace(co_firstlineno=1000 + len(sides))
            compiled = torch.compile(attend)

            def forward(compiled: Callable[[], torch.Tensor] = compiled) -> None:
                with torch.no_grad():
                    compiled()

            def both(compiled: Callable[[], torch.Tensor] = compiled) -> None:
                torch.autograd.grad(compiled(), inputs, gradient)

            with using, torch._inductor.config.patch(force_disable_caches=True):
                forward()
                both()
            sides.append((forward, both))
        for what, pair in zip(
            ("forward", "forward and backward"), zip(*sides, strict=True), strict=True
        ):
            times: list[list[float]] = [[], []]
            for turn in range(options.rounds):
                for side in (0, 1) if turn % 2 else (1, 0):
                    torch.accelerator.synchronize()
                    start = time.perf_counter()
                    pair[side]()
                    torch.accelerator.synchronize()
                    times[side].append(time.perf_counter() - start)
            ours, dense = (statistics.median(x) * 1e3 for x in times)
            ratio, low, high = median_interval([a / b for a, b in zip(*times, strict=True)])
            print(
                f"{name:14} {what:20} kernels {ours:7.1f} ms, formula {dense:7.1f} ms, "
                f"ratio {ratio:.2f} [{low:.2f}, {high:.2f}]"
            )


if __name__ == "__main__":
    main()
