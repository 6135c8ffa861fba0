"""A kernel of `add.out` serves a + b and a += b, too.

    python examples/structured_operators/run.py

Compiles `add.cpp`, and registers `mul.out` from Python. Exits with status 1 if a form takes another
kernel or gives another result than on the CPU.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard
from torch_outboard import fallback

load("structured_example", [Path(__file__).with_name("add.cpp")], is_python_module=False)


@torch_outboard.kernel("aten::mul.out")
def mul_out(self, other, *, out):
    return torch.div(self, 1 / other, out=out)


device = torch_outboard.device_name()
a, b = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, 2.0, 4.0])
x, y = a.to(device), b.to(device)


def show(title: str, ran: str, result: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(result.cpu(), expected)
    print(f"{title:<22} {tuple(result.shape)} {result.dtype}  by {ran}")


def by_what(call) -> tuple[str, torch.Tensor]:
    with fallback.policy(copied="allow"), fallback.report() as report:
        result = call()
    device_rows = [row.op for row in report.rows if row.placement == "device" and ".out" in row.op]
    ran = [op for op in device_rows if op in ("aten::add.out", "aten::mul.out")]
    assert ran, report.rows
    return ran[0], result


show("a + b", *by_what(lambda: x + y), a + b)
show("a + b, int64 and float", *by_what(lambda: x.long() + y), a.long() + b)
show("torch.add(alpha=2)", *by_what(lambda: torch.add(x, y, alpha=2)), torch.add(a, b, alpha=2))
show("a += b", *by_what(lambda: x.clone().add_(y)), a + b)
show("a * b", *by_what(lambda: x * y), a * b)
x.requires_grad_()
(x + y).square().sum().backward()
torch.testing.assert_close(x.grad.cpu(), 2 * (a + b))
print(f"gradient of (a + b)**2  {x.grad[0].tolist()}")
for name in ("add.Tensor", "add_.Tensor", "mul.Tensor"):
    kernel = torch_outboard.registrations(name)[0]
    assert kernel.follows
    print(f"{name:<22} {kernel.source}: {kernel.origin.rpartition('/')[2]}, from the out= form")
