"""Kernels behind PyTorch's stubs: REGISTER_PRIVATEUSE1_DISPATCH.

    python examples/stubs/run.py

Compiles `stubs.cpp`. Exits with status 1 if a kernel is not called or a result differs from the
CPU's.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

library = load("stubs_example", [Path(__file__).with_name("stubs.cpp")], is_python_module=False)
calls = ctypes.CDLL(library).stub_calls
device = torch_outboard.device_name()
a, b = torch.tensor([[-3.0], [5.0]]), torch.tensor([4.0, -12.0])
x, y = a.to(device), b.to(device)


def show(title: str, result: torch.Tensor, expected: torch.Tensor, count: int = 1) -> None:
    torch.testing.assert_close(result.cpu(), expected)
    show.seen += count
    assert calls() == show.seen, f"{title}: {calls()} calls of the kernels, {show.seen} expected"
    print(f"{title:<14} {result.tolist()}")


show.seen = 0
torch_outboard.fallback.set_policy(copied="allow")
show("abs(a)", x.abs(), a.abs())
show("a.abs_()", x.clone().abs_(), a.abs())
show("abs, out=", torch.abs(x, out=torch.empty_like(x)), a.abs())
show("hypot(a, b)", torch.hypot(x, y), torch.hypot(a, b))
x.requires_grad_()
x.abs().sum().backward()
show("gradient of abs", x.grad, a.sign())
