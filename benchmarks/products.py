"""Time of products, ResNet-18's convolutions, attention and pooling, on a device against CPU.

    OUTBOARD_DRIVER=ocl OUTBOARD_PLACEMENT=device python -m benchmarks.products [names...]

Convolutions are those of a batch of 8 images of 64 x 64 pixels; a training step is the forward and
all gradients. Attention is causal, of 8 heads of 256 queries; pooling is that of ResNet-18.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.command import run_as_command
from benchmarks.paired import Work

BATCH = 8
# Input channels, output channels, input size, kernel size, stride.
CONVOLUTIONS = [
    (3, 64, 64, 7, 2),
    (64, 64, 16, 3, 1),
    (64, 128, 16, 3, 2),
    (64, 128, 16, 1, 2),
    (128, 128, 8, 3, 1),
    (128, 256, 8, 3, 2),
    (256, 256, 4, 3, 1),
    (256, 512, 4, 3, 2),
    (512, 512, 2, 3, 1),
]


def product(size: int, dtype: torch.dtype, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    left, right = (torch.randn(size, size).to(device, dtype) for _ in range(2))
    out = torch.empty(size, size, dtype=dtype, device=device)
    return lambda: torch.mm(left, right, out=out)


def convolution(
    sizes: tuple[int, int, int, int, int], backward: bool, device: str
) -> Callable[[], object]:
    torch.manual_seed(0)
    channels, features, size, kernel, stride = sizes
    image = torch.randn(BATCH, channels, size, size).to(device)
    weight = torch.randn(features, channels, kernel, kernel).to(device)
    options = ([stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1)
    forward = torch.ops.aten.convolution
    if not backward:
        return lambda: forward(image, weight, None, *options)
    gradient = torch.ones(forward(image, weight, None, *options).shape).to(device)
    mask = [True, True, False]

    def step() -> object:
        forward(image, weight, None, *options)
        return torch.ops.aten.convolution_backward(gradient, image, weight, None, *options, mask)

    return step


def attention(backward: bool, dtype: torch.dtype, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    leaves = [
        torch.randn(4, 8, 256, 64).to(device, dtype).requires_grad_(backward) for _ in range(3)
    ]
    gradient = torch.ones(4, 8, 256, 64).to(device, dtype)

    def step() -> object:
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
        return torch.autograd.grad(out, leaves, gradient) if backward else out

    return step


def max_pool(backward: bool, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    image = torch.randn(BATCH, 64, 32, 32).to(device)
    options = ([3, 3], [2, 2], [1, 1])
    forward = torch.ops.aten.max_pool2d_with_indices
    if not backward:
        return lambda: forward(image, *options)
    gradient = torch.ones(BATCH, 64, 16, 16).to(device)

    def step() -> object:
        _, indices = forward(image, *options)
        return torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, image, *options, [1, 1], False, indices
        )

    return step


def _name(sizes: tuple[int, int, int, int, int]) -> str:
    channels, features, size, kernel, stride = sizes
    return f"conv {channels}->{features} {size}x{size} k{kernel} s{stride}"


WORKS: dict[str, Work] = {
    "mm 1024 float32": partial(product, 1024, torch.float32),
    "mm 2048 float32": partial(product, 2048, torch.float32),
    "mm 1024 bfloat16": partial(product, 1024, torch.bfloat16),
    "mm 128 float32": partial(product, 128, torch.float32),
    **{_name(sizes): partial(convolution, sizes, False) for sizes in CONVOLUTIONS},
    **{f"{_name(sizes)} step": partial(convolution, sizes, True) for sizes in CONVOLUTIONS},
    "attention float32": partial(attention, False, torch.float32),
    "attention float32 step": partial(attention, True, torch.float32),
    "attention bfloat16 step": partial(attention, True, torch.bfloat16),
    "max pool 3x3 s2": partial(max_pool, False),
    "max pool 3x3 s2 step": partial(max_pool, True),
}

if __name__ == "__main__":
    run_as_command(__doc__ or "", "benchmarks.products", WORKS)
