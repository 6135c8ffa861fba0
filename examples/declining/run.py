"""Kernels that decline calls, in C++ and in Python.

    python examples/declining/run.py

Compiles `declining.cpp`. Exits with status 1 if a call is served by another kernel than expected.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard
from torch_outboard import fallback

load(
    "declining_example",
    [Path(__file__).with_name("declining.cpp")],
    extra_include_paths=torch_outboard.include_paths(),
    extra_ldflags=[torch_outboard.library_path()],
    is_python_module=False,
)
served = []


@torch_outboard.kernel("aten::relu")
def relu(self):
    if self.dim() != 2:
        raise torch_outboard.Declined
    served.append("Python")
    return self.clamp(min=0)


device = torch_outboard.device_name()


def show(title: str, x: torch.Tensor, expected: str) -> None:
    served.clear()
    with fallback.policy(copied="allow"), fallback.report() as report:
        result = torch.relu(x.to(device))
    torch.testing.assert_close(result.cpu(), x.relu())
    rows = {row.op: row.placement for row in report.rows}
    # The kernel in C++ asks clamp_min.
    inner = any(op.startswith("aten::clamp_min") for op in rows)
    by = served[0] if served else "C++" if inner else "the next"
    print(f"{title:<28} {by}")
    assert by == expected, rows


show("a matrix", torch.randn(2, 3), "Python")
show("a vector", torch.randn(3), "C++")
show("a vector of float64", torch.randn(3).double(), "the next")
show("a long vector", torch.randn(30), "the next")
