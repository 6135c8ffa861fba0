"""Kernels in Python: torch.library.impl, and torch_outboard's decorator.

    python examples/kernels_in_python/run.py

Exits with status 1 if one of them does not run.
"""

from __future__ import annotations

import torch

import torch_outboard
from torch_outboard import fallback

device = torch_outboard.device_name()
x = torch.tensor([-2.0, 3.0]).to(device)


# PyTorch's decorator: for all dtypes and devices, for as long as the process lives.
@torch.library.impl("aten::softplus", "PrivateUse1")
def softplus(self, beta=1, threshold=20):
    return torch.log1p(torch.exp(self * beta)) / beta


# The same in an object that unregisters everything when it is freed.
library = torch.library.Library("aten", "IMPL")
library.impl("hardtanh", lambda self, low=-1, high=1: self.clamp(low, high), "PrivateUse1")


# torch_outboard's decorator: for some dtypes and devices, and it can decline calls.
@torch_outboard.kernel("aten::relu", dtypes=[torch.float32])
def relu(self):
    if self.dim() > 1:
        raise torch_outboard.Declined
    return self.clamp(min=0)


def show(title: str, op: str, call) -> str:
    with fallback.policy(copied="allow"), fallback.report() as report:
        result = call()
    placement = next(row.placement for row in report.rows if row.op == op)
    print(f"{title:<34} {[round(v, 4) for v in result.flatten().tolist()]}  {placement}")
    return placement


functional = torch.nn.functional
placements = [
    show("softplus, torch.library.impl", "aten::softplus", lambda: functional.softplus(x)),
    show("hardtanh, torch.library.Library", "aten::hardtanh", lambda: functional.hardtanh(x)),
    show("relu, torch_outboard.kernel", "aten::relu", lambda: torch.relu(x)),
]
assert placements == ["device"] * 3, placements
show("relu of float64, torch_outboard's", "aten::relu", lambda: torch.relu(x.double()))
show("relu of a matrix, declined", "aten::relu", lambda: torch.relu(x[None]))
library._destroy()
show("hardtanh, taken back", "aten::hardtanh", lambda: functional.hardtanh(x))
for kernel in torch_outboard.registrations("aten::relu"):
    print(f"relu: {kernel.source} {kernel.dtypes or 'every dtype'}")
