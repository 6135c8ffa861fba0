"""Derivatives on the device: PyTorch's formulas, and a vendor's in C++ and Python.

    python examples/backward/run.py

Compiles `backward.cpp`. Exits with status 1 if a gradient differs from the CPU's.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

load("backward_example", [Path(__file__).with_name("backward.cpp")], is_python_module=False)
torch_outboard.fallback.set_policy(copied="allow")
device = torch_outboard.device_name()
values = torch.tensor([-1.0, 0.5, 2.0])


def show(title: str, function) -> None:
    print(title, flush=True)
    gradients = []
    for where in (device, "cpu"):
        x = values.clone().to(where).requires_grad_()
        function(x).sum().backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(*gradients)
    print(f"  gradient {[round(v, 4) for v in gradients[0].tolist()]}", flush=True)


show("PyTorch's formula, its operators on the device", lambda x: torch.tanh(x) ** 2)
show("PyTorch's formula, a step of it by the vendor", torch.relu)
show("torch::autograd::Function on AutogradPrivateUse1", torch.celu)


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        # Below autograd, or the inner operator would record PyTorch's formula.
        with torch._C._AutoDispatchBelowAutograd():
            return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        print("  backward of the vendor's tanh", flush=True)
        return gradient * (1 - x.tanh() ** 2)


library = torch.library.Library("aten", "IMPL")
library.impl("tanh", Tanh.apply, "AutogradPrivateUse1")
show("torch.autograd.Function on AutogradPrivateUse1", torch.tanh)
library._destroy()

print("no derivative")
x = values.to(device).requires_grad_()
y = torch.ops.backward_example.halve(x)
print(f"  halve gives {y.tolist()}")
try:
    y.sum().backward()
except RuntimeError as error:
    print(f"  {error}")
else:
    raise SystemExit("an operator without a derivative gave one")
