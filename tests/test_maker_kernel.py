"""A maker's kernel in C++: the example builds against what is installed, and wins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import torch_outboard
from tests.support import run_python

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "maker_kernel" / "relu.cpp"


@pytest.mark.slow
def test_maker_kernel(tmp_path: Path):
    library = Path(torch_outboard.library_path())
    includes = [*torch_outboard.include_paths(), *cpp_extension.include_paths()]
    output = tmp_path / "libmaker_kernel.so"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(output)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    command += [f"-I{path}" for path in includes]
    command += [str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, check=True, timeout=280)
    printed = run_python(
        """
        import sys
        import torch
        from torch_outboard import fallback

        torch.ops.load_library(sys.argv[1])
        x = torch.tensor([-1.0, 2.0]).to("host").requires_grad_()
        with fallback.report() as report:
            y = torch.relu(x)
            torch.relu(x.detach().double())
        print(y.tolist(), sorted((row.way, str(row.dtype)) for row in report.rows
                                 if row.op == "aten::relu"))
        y.sum().backward()
        print(x.grad.tolist())
        """,
        str(output),
        OUTBOARD_HOST_ACCESS="shared",
    )
    assert printed.splitlines() == [
        "[0.0, 2.0] [('device', 'torch.float32'), ('shared', 'torch.float64')]",
        "[0.0, 1.0]",
    ]
