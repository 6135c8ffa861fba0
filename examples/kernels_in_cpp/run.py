"""Kernels in C++ precede built-in ones, whether their library is loaded before or after the kit.

    python examples/kernels_in_cpp/run.py

Builds the library with setup.py, and starts a Python for each order. Exits with status 1 if a
kernel does not run in one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

CALLS = """
import sys
import torch

library, order = sys.argv[1:]
if order == "before":
    torch.ops.load_library(library)
import torch_outboard
if order == "after":
    torch.ops.load_library(library)
if order == "after the first use":
    torch.ones(1, device=torch_outboard.device_name())
    with torch_outboard.registering():
        torch.ops.load_library(library)

device = torch_outboard.device_name()
x = torch.tensor([-1.0, 2.0]).to(device).requires_grad_()
with torch_outboard.fallback.report() as report:
    y = torch.relu(x)
    torch.nn.functional.silu(x)
y.sum().backward()
print(f"loaded {order}: relu {y.tolist()}, gradient {x.grad.tolist()}")
for row in report.rows:
    if row.op in ("aten::relu", "aten::silu"):
        kernel = torch_outboard.registrations(row.op)[0]
        file = kernel.origin.rpartition("/")[2]
        print(f"  {row.op:<10} {row.placement:<7} {kernel.source}: {file}")
placements = {(row.op, row.placement) for row in report.rows}
assert {("aten::relu", "device"), ("aten::silu", "device")} <= placements
"""


def build() -> Path:
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR", tempfile.gettempdir()), "example_kernels")
    command = [sys.executable, "setup.py", "--quiet", "build_ext"]
    command += [f"--build-lib={folder}", f"--build-temp={folder}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return folder / "example_kernels.so"


def main() -> int:
    library = build()
    for order in ("before", "after", "after the first use"):
        env = {**os.environ}
        if order == "before":
            # Otherwise `import torch` registers the device by itself, which is the second order.
            env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        done = subprocess.run([sys.executable, "-c", CALLS, library, order], env=env, check=False)
        if done.returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
