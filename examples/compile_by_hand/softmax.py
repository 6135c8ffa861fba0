"""Operators and their derivatives on the emulated processor, with a report of their placements.

OUTBOARD_DRIVER=riscv python examples/compile_by_hand/softmax.py
"""

import sys

import torch

import torch_outboard


def main() -> int:
    x = torch.randn(1000, device="riscv", requires_grad=True)
    with torch_outboard.fallback.report() as report:
        y = torch.nn.functional.softmax(x.reshape(10, 100) @ torch.randn(100, 5, device="riscv"), 1)
        y.log().sum().backward()
    print(report)
    return 0 if all(row.placement == "device" for row in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
