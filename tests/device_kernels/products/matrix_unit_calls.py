"""Products of float16 and bfloat16 by matrix units, compared with float32 on CPU.

A program: `python -m tests.device_kernels.products.matrix_unit_calls [warps|warpgroups [STEP]]`.
With arguments, PoCL poses as a GPU that has such units, which kernels emulate. Of the cases, every
STEP-th is taken.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional

import torch_outboard  # noqa: F401
from torch_outboard.drivers.contract import Feature
from torch_outboard.scoreboard.comparison.transplant import Transplant

HALVES = (torch.float16, torch.bfloat16)
# Sums of K products of values that have 8 or 11 bits, rounded once: sums are in float32.
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}

Function = Callable[..., torch.Tensor]


def laid_out(rows: int, columns: int, layout: str) -> torch.Tensor:
    """Random values whose rows, or columns, are contiguous; `odd` strides are no multiple of 8."""
    if layout == "rows":
        return torch.randn(rows, columns)
    if layout == "columns":
        return torch.randn(columns, rows).T
    if layout == "odd rows":
        return torch.randn(rows, columns + 3)[:, :columns]
    if layout == "odd columns":
        return torch.randn(columns, rows + 5).T[:rows]
    return torch.randn(rows, 2 * columns)[:, ::2]


def products() -> Iterator[tuple[str, Function, list[torch.Tensor]]]:
    layouts = ("rows", "columns", "odd rows", "odd columns", "steps")
    for left in layouts:
        for right in layouts:
            yield f"mm {left} {right}", torch.mm, [
                laid_out(130, 104, left), laid_out(104, 136, right)
            ]  # fmt: skip
    for m, k, n in ((64, 64, 64), (65, 33, 67), (129, 257, 63), (16, 1024, 24), (200, 31, 200)):
        yield f"mm {m} {k} {n}", torch.mm, [torch.randn(m, k), torch.randn(k, n)]
    yield "split depth", torch.mm, [torch.randn(70, 4100), torch.randn(4100, 66)]
    yield "bmm", torch.bmm, [torch.randn(3, 70, 40), torch.randn(3, 40, 72)]
    yield "linear", functional.linear, [
        torch.randn(5, 33, 64), torch.randn(96, 64), torch.randn(96)
    ]  # fmt: skip
    yield "addmm", partial(torch.addmm, alpha=0.5, beta=2.0), [
        torch.randn(72), torch.randn(80, 48), torch.randn(48, 72)
    ]  # fmt: skip


def convolutions() -> Iterator[tuple[str, Function, list[torch.Tensor]]]:
    def backward(index: int, options: dict[str, int]) -> Function:
        def function(*operands: torch.Tensor) -> torch.Tensor:
            operands = tuple(x.detach().requires_grad_() for x in operands)
            out = functional.conv2d(*operands, **options)
            torch.manual_seed(1)
            gradient = torch.randn(out.shape).to(out)
            return torch.autograd.grad(out, operands[index], gradient)[0]

        return function

    shapes = {
        "3 x 3": ((2, 20, 13, 15), (24, 20, 3, 3), {"padding": 1}),
        "7 x 7, stride 2": ((2, 3, 21, 19), (16, 3, 7, 7), {"padding": 3, "stride": 2}),
        "3 x 3 of vectors": ((2, 24, 13, 15), (40, 24, 3, 3), {"padding": 1, "stride": 2}),
        # Large enough to be laid out with channels last.
        "large": ((3, 64, 70, 72), (24, 64, 3, 3), {"padding": 1}),
        "1 x 1": ((3, 32, 9, 8), (40, 32, 1, 1), {}),
        "groups": ((2, 16, 11, 12), (20, 8, 3, 3), {"groups": 2, "dilation": 2}),
    }
    for name, (image, weight, options) in shapes.items():
        tensors = [torch.randn(image), torch.randn(weight) / 8]
        layouts = {"": tensors}
        if name != "large":
            layouts[", channels last"] = [x.to(memory_format=torch.channels_last) for x in tensors]
        for layout, operands in layouts.items():
            yield f"conv2d {name}{layout}", partial(functional.conv2d, **options), operands
            yield f"gradient of image, {name}{layout}", backward(0, options), operands
            yield f"gradient of weight, {name}{layout}", backward(1, options), operands


def error_of(function: Function, tensors: list[torch.Tensor], dtype: torch.dtype) -> float:
    """The largest difference from float32 on CPU of the same values, by the results' size."""
    # A copy has the strides of the tensor, also where there are elements between its rows.
    rounded = [torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x) for x in tensors]
    expected = function(*(x.float() for x in rounded)).double()
    actual = function(*Transplant(torch.device("ocl"))(rounded)).cpu().double()
    return float((actual - expected).abs().max() / expected.abs().max())


def main() -> int:
    """How many results are wrong. The emulation, which is slow, takes the dtypes in turns."""
    emulated, step = sys.argv[1:2], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    if emulated:
        from tests.device_kernels import gpu_driver

        units = {
            "warps": Feature.MATRIX_UNITS,
            "warpgroups": Feature.MATRIX_UNITS | Feature.WARPGROUPS,
        }
        gpu_driver.use(lanes=512, matrix_units=units[emulated[0]])
    wrong = 0
    torch.manual_seed(0)
    for i, (name, function, tensors) in enumerate([*products(), *convolutions()][::step]):
        for dtype in [HALVES[i % 2]] if emulated else HALVES:
            error = error_of(function, tensors, dtype)
            print(f"{name}, {dtype}: {error:.1e} of the largest value", flush=True)
            if not error < TOLERANCES[dtype]:
                wrong += 1
                print("    wrong")
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
