"""A vendor's kernel in C++: the example builds against what is installed, and wins."""

import re
import subprocess
from pathlib import Path

import pytest

import torch_outboard
from tests.support import ROOT, compile_library, run_python

SOURCE = ROOT / "examples" / "vendor_kernel" / "relu.cpp"
# Required functions alone, and memory that the host must not touch: what a vendor starts with.
MINIMAL = ROOT / "tests" / "drivers" / "minimal_driver.c"

# A kernel that takes it for granted that the host can touch its argument: it adds one in place.
CARELESS = """
namespace {
at::Tensor careless(const at::Tensor& self) {
  auto* values = static_cast<float*>(outboard::host_pointer(self));
  values[self.numel() - 1] += 1;
  return self;
}
OUTBOARD_KERNEL("aten::erf", careless);
}  // namespace
"""


@pytest.mark.slow
def test_vendor_kernel(tmp_path: Path):
    source = tmp_path / "kernels.cpp"
    source.write_text(f'#include "{SOURCE}"\n{CARELESS}')
    output = tmp_path / "libvendor_kernel.so"
    compile_library(source, output)
    minimal = tmp_path / "libob_minimal.so"
    command = ["cc", "-std=c11", "-shared", "-fPIC", f"-I{torch_outboard.include_paths()[0]}"]
    subprocess.run([*command, MINIMAL, "-o", minimal], check=True)
    for driver, access, placement in (
        ("host", "shared", "host"),
        ("host", "separate", "copied"),
        (str(minimal), "", "copied"),
    ):
        check(output, placement, OUTBOARD_DRIVER=driver, OUTBOARD_HOST_ACCESS=access or None)


def check(output: Path, placement: str, **env: str | None) -> None:
    """The kernel runs, and what it does not serve runs at `placement`, as before."""
    printed = run_python(
        """
        import sys
        import torch
        import torch_outboard
        from torch_outboard import fallback

        torch.ops.load_library(sys.argv[1])
        fallback.set_policy(copied="allow")
        device = torch.device(torch_outboard.device_name())
        x = torch.tensor([-1.0, 2.0]).to(device).requires_grad_()
        with fallback.report() as report:
            y = torch.relu(x)
            torch.relu(x.detach().double())
        print(y.tolist(), sorted((row.placement, str(row.dtype)) for row in report.rows
                                 if row.op == "aten::relu"))
        y.sum().backward()
        print(x.grad.tolist())
        z = torch.randn(50, 30)
        assert torch.equal(torch.relu(z.to(device).t()).cpu(), torch.relu(z.t()))
        assert torch.relu(z.to(device)[:0]).shape == (0, 30)
        try:
            print(torch.erf(x.detach()).tolist())
        except NotImplementedError as error:
            print(error)
        """,
        str(output),
        **env,
    )
    lines = printed.splitlines()
    assert lines[:2] == [
        f"[0.0, 2.0] {sorted([('device', 'torch.float32'), (placement, 'torch.float64')])}",
        "[0.0, 1.0]",
    ]
    if placement == "host":
        assert lines[2] == "[-1.0, 3.0]"
    else:
        assert re.match(
            r"a kernel asked for a host pointer to memory of \w+:0, which the host cannot touch; "
            "copy it with the driver's `copy_device_to_host`",
            lines[2],
        )
