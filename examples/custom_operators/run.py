"""Custom operators in C++ and in Python, and a kernel for another library's operator.

    python examples/custom_operators/run.py

Compiles `operators.cpp`, adds operators in Python, and runs PyTorch's checks for custom operators
on the device. Exits with status 1 if one fails or a value is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

device = torch_outboard.device_name()
load("custom_example", [Path(__file__).with_name("operators.cpp")], is_python_module=False)
example = torch.ops.custom_example

# ---- A backward operator of C++, connected here


def save_for_swish(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.beta = inputs[1]


def backward_of_swish(ctx, gradient):
    return example.swish_backward(gradient, *ctx.saved_tensors, ctx.beta), None


torch.library.register_autograd(
    "custom_example::swish", backward_of_swish, setup_context=save_for_swish
)
torch.library.register_fake("custom_example::swish", lambda x, beta: torch.empty_like(x))
torch.library.register_fake(
    "custom_example::swish_backward", lambda gradient, x, beta: torch.empty_like(x)
)

# ---- An operator in Python, with a kernel for this device only


@torch.library.custom_op("custom_example::cube", mutates_args=(), device_types=device)
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


cube.register_fake(torch.empty_like)


def save_for_cube(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward_of_cube(ctx, gradient):
    (x,) = ctx.saved_tensors
    return 3 * x * x * gradient


cube.register_autograd(backward_of_cube, setup_context=save_for_cube)

# ---- Another library's operator, which has a kernel for the CPU only


@torch.library.custom_op("custom_example::nms", mutates_args=(), device_types="cpu")
def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of the boxes to keep, best first: none overlaps a better one too much."""
    kept: list[int] = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if all(overlap(boxes[index], boxes[other]) <= iou_threshold for other in kept):
            kept.append(index)
    return torch.tensor(kept)


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Intersection over union of boxes (..., 4) of the form x1, y1, x2, y2."""
    width = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    common = width.clamp(min=0).prod(-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    return common / (areas[0] + areas[1] - common)


@torch_outboard.kernel("custom_example::nms")
def nms_on_device(boxes, scores, iou_threshold):
    order = scores.argsort(descending=True, stable=True)
    boxes = boxes[order]
    # The device computes the matrix of overlaps; only the last choice is sequential.
    better = overlap(boxes[:, None], boxes[None]).gt(iou_threshold).triu(1).cpu()
    keep = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if keep[index]:
            keep &= ~better[index]
    return order[keep.to(order.device)]


# ---- Checks

torch.manual_seed(0)
x = torch.randn(3, 4, device=device, requires_grad=True)
y = torch.randn(4, device=device)
for op, arguments in (
    (example.hypotenuse.default, (x.detach(), y)),
    (example.swish.default, (x, 1.5)),
    (example.limit.default, (x, 0.5)),
    (example.cube.default, (x,)),
):
    passed = torch_outboard.opcheck(op, arguments)
    print(f"{op.name():26} {', '.join(name for name in passed)}")

example.swish(x, 1.5).sum().backward()
on_cpu = x.detach().cpu().requires_grad_()
(on_cpu * torch.sigmoid(1.5 * on_cpu)).sum().backward()
torch.testing.assert_close(x.grad.cpu(), on_cpu.grad)
try:
    example.hypotenuse(x, y).sum().backward()
    sys.exit("hypotenuse has no derivative and gave one")
except RuntimeError as error:
    print(str(error).splitlines()[0])

corners = torch.rand(200, 2)
boxes = torch.cat((corners, corners + torch.rand(200, 2)), 1)
scores = torch.rand(200)
with torch_outboard.fallback.report() as report:
    kept = example.nms(boxes.to(device), scores.to(device), 0.3)
placements = {row.placement for row in report.rows if row.op == "custom_example::nms"}
print(f"nms keeps {len(kept)} of {len(boxes)} boxes; placement: {', '.join(placements)}")
torch.testing.assert_close(kept.cpu(), example.nms(boxes, scores, 0.3))
