"""Attention of float16 and bfloat16 by matrix units, compared with float32 on CPU.

A program: `python -m tests.device_kernels.products.attention_unit_calls`, with `emulated [STEP]` or
sizes.
With `emulated`, PoCL poses as a GPU that has such units, which kernels emulate, and there are fewer
calls; a step leaves out all but every so many of them. Sizes are those of heads.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

import torch_outboard  # noqa: F401
from tests.device_kernels import gpu_driver
from torch_outboard.drivers.contract import Feature
from torch_outboard.scoreboard.comparison.transplant import Transplant

HALVES = (torch.float16, torch.bfloat16)
# Probabilities and gradients of scores are rounded to 11 or 8 bits.
TOLERANCES = {torch.float16: 4e-3, torch.bfloat16: 3e-2}

SIZES = (8, 16, 40, 64, 80, 128)

Call = tuple[str, list[torch.Tensor], dict[str, Any]]


def operands(
    queries: int, keys: int, size: int, heads: int = 2, key_heads: int = 2, batch: int = 1
) -> list[torch.Tensor]:
    """Query, key and value."""
    query = torch.randn(batch, heads, queries, size)
    return [query, *(torch.randn(batch, key_heads, keys, size) for _ in range(2))]


def rows_first(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same values in memory as (batch, row, head, element)."""
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]


def few_calls() -> Iterator[Call]:
    """Calls that take each path of the kernels; PoCL compiles one program per size of heads."""
    yield "tails", operands(65, 70, 16, batch=2), {}
    yield "causal", operands(70, 65, 16), {"is_causal": True}
    yield "rows first", rows_first(operands(1, 17, 16)), {}
    yield "expanded gradient", operands(20, 17, 16), {}
    yield "heads of 40", operands(33, 20, 40, heads=1, key_heads=1), {"is_causal": True}
    yield "heads of 8, not aligned", [x[..., :8] for x in operands(20, 70, 11)], {}
    yield "mask", operands(33, 70, 16), {"attn_mask": torch.randn(33, 70)}
    yield "grouped", operands(17, 40, 16, heads=4), {"enable_gqa": True, "scale": -0.5}


def calls(sizes_of_heads: Sequence[int]) -> Iterator[Call]:
    for size in sizes_of_heads:
        for queries, keys in ((1, 1), (17, 65), (64, 64), (65, 17), (130, 300), (300, 130)):
            for causal in (False, True):
                name = f"{queries} x {keys} x {size}{', causal' if causal else ''}"
                yield name, operands(queries, keys, size), {"is_causal": causal}
        many = operands(300, 300, size, heads=8, key_heads=8, batch=16)  # in large groups
        yield f"many, {size}", many, {"is_causal": True}
    for size in set(sizes_of_heads) & {64, 128}:
        tensors = operands(130, 200, size, batch=2)
        yield f"rows first, {size}", rows_first(tensors), {}
        yield f"expanded gradient, {size}", tensors, {}
        yield f"not aligned, {size}", [x[..., :size] for x in operands(130, 200, size + 3)], {}
        yield f"scale, {size}", tensors, {"scale": 0.3}
        yield f"negative scale, {size}", tensors, {"scale": -0.3}
        yield f"no scale, {size}", tensors, {"scale": 0.0}
        yield f"grouped, {size}", operands(130, 200, size, heads=6), {"enable_gqa": True}
        both = {"enable_gqa": True, "is_causal": True}
        yield f"grouped and causal, {size}", operands(200, 300, size, heads=6), both
        for sizes in ((130, 200), (2, 1, 1, 200), (1, 2, 130, 200), (130, 1)):
            mask = torch.randn(sizes).expand(*sizes[:-2], -1, 200)
            yield f"mask {sizes}, {size}", tensors, {"attn_mask": mask}
        mask = torch.rand(2, 2, 130, 200) > 0.4
        mask[0, 0, 3:20] = False  # rows without keys
        yield f"mask of bool, {size}", tensors, {"attn_mask": mask}
        lowest = torch.zeros(130, 200).masked_fill(~mask[0, 0], torch.finfo(torch.float32).min)
        yield f"mask of the least numbers, {size}", tensors, {"attn_mask": lowest}


def results(
    tensors: list[torch.Tensor], gradient: torch.Tensor, options: dict[str, Any]
) -> list[torch.Tensor]:
    """The output and the gradients."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    query, key, value = leaves
    out = scaled_dot_product_attention(query, key, value, **options)
    return [out.detach(), *torch.autograd.grad(out, leaves, gradient)]


def differences(call: Call, dtype: torch.dtype) -> Iterator[tuple[str, float]]:
    """The largest difference from float32 on CPU of the same values, by the largest value."""
    _, tensors, options = call
    # A copy has the strides of the tensor, also where there are elements between its rows.
    rounded = [torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x) for x in tensors]
    query = rounded[0]
    torch.manual_seed(1)
    gradient = torch.randn(query.shape).to(dtype)
    if call[0].startswith("rows first"):
        gradient = rows_first([gradient])[0]
    if "expanded" in call[0]:
        gradient = gradient[..., :1].expand(query.shape)
    expected = results([x.float() for x in rounded], gradient.float(), options)
    actual = results(*Transplant(torch.device("ocl"))((rounded, gradient, options)))
    names = ("output", "gradient of query", "gradient of key", "gradient of value")
    for name, want, got in zip(names, expected, actual, strict=True):
        # Where one key has all the weight, gradients are differences of rounded numbers.
        size = max(float(want.abs().max()), 0.1)
        yield name, float((got.cpu().double() - want.double()).abs().max()) / size


def main() -> int:
    emulated = sys.argv[1:2] == ["emulated"]
    numbers = list(map(int, sys.argv[2 if emulated else 1 :]))
    if emulated:
        gpu_driver.use(lanes=64, matrix_units=Feature.MATRIX_UNITS)
    wrong = 0
    torch.manual_seed(0)
    step = numbers[0] if emulated and numbers else 1
    for call in list(few_calls())[::step] if emulated else calls(numbers or SIZES):
        for dtype in HALVES:
            for result, error in differences(call, dtype):
                if not error < TOLERANCES[dtype]:
                    wrong += 1
                    print(f"{call[0]}, {dtype}, {result}: wrong by {error:.2e} of the largest")
    if emulated and not any("unit_words" in source for source in gpu_driver.sources):
        wrong += 1
        print("no kernel uses matrix units")
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
