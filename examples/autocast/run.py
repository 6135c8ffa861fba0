"""Autocast policies of custom operators, in C++ and in Python.

    python examples/autocast/run.py

Compiles `policies.cpp`, prints the dtypes in which operators run under autocast, and trains a small
network with a gradient scaler. Exits with status 1 if a dtype is not that of the policy, or if the
loss does not fall.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

device = torch_outboard.device_name()
amp = torch.get_device_module(device).amp

load("autocast_example", [Path(__file__).with_name("policies.cpp")], is_python_module=False)
example = torch.ops.autocast_example
# From Python: without a policy it would run in the dtype of its argument.
amp.register_policy("autocast_example::mean_square", "fp32")

x = torch.ones(8, 8, device=device)
half = x.half()
with torch.autocast(device, dtype=torch.float16):
    dtypes = {
        "mm, PyTorch's list": torch.mm(x, x).dtype,
        "exp, PyTorch's list": torch.exp(half).dtype,
        "erf, KERNEL_PRIVATEUSEONE": torch.erf(half).dtype,
        "scaled_product, C++": example.scaled_product(x, x, 0.5).dtype,
        "mean_square, Python": example.mean_square(half).dtype,
        "neg, no policy": torch.neg(half).dtype,
    }
for operator, dtype in dtypes.items():
    print(f"{operator:26} {dtype}")

torch.manual_seed(0)
weight = torch.randn(8, 1, device=device).requires_grad_()
target = torch.arange(8.0, device=device).view(8, 1)
optimizer = torch.optim.SGD([weight], lr=0.02)
scaler = torch.amp.GradScaler(device)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = example.mean_square(example.scaled_product(x.tril(), weight, 1.0) - target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}, scale {scaler.get_scale():.0f}")

low, single = torch.float16, torch.float32
expected = [low, single, single, low, single, low]
sys.exit(0 if list(dtypes.values()) == expected and losses[-1] < 0.2 * losses[0] else 1)
