"""A custom operator by a kernel in OpenCL C, with a derivative."""

import torch

import torch_outboard

device = torch.device(torch_outboard.device_name())
torch.library.define("first::delay", "(Tensor x, int by) -> Tensor")


@torch_outboard.kernel(
    "first::delay",
    source="""
        __kernel void delay(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          const ob_index from = i - by;
          out_store(i, from >= 0 && from < n ? x_load(from) : 0);
        }
    """,
)
def delay(plan, x, by):
    out = plan.result()
    plan.parameters(by=by, n=x.numel())
    plan.launch("delay", out.numel())


def keep(ctx, inputs, output):
    ctx.by = inputs[1]


def backward(ctx, gradient):
    return torch.ops.first.delay(gradient, -ctx.by), None


torch.library.register_autograd("first::delay", backward, setup_context=keep)

x = torch.arange(1.0, 6.0).to(device).requires_grad_()
y = torch.ops.first.delay(x, 2)
(y * y).sum().backward()
print(y.tolist())
print(x.grad.tolist())
assert y.tolist() == [0, 0, 1, 2, 3]
assert x.grad.tolist() == [2, 4, 6, 0, 0]
