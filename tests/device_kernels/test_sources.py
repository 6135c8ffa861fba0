"""Sources are written by Python on whichever thread asks for a kernel first."""

from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program

# Every thread makes kernels of its own, while the others wait for the interpreter.
THREADS = """
import threading
import torch
import torch_outboard

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


def work(index):
    dtype = DTYPES[index % 4]
    x = torch.arange(24).reshape(4, 6).to(dtype)
    got = x.to("ocl")
    for scale in range(1, 4):
        got = torch.maximum(got * scale, got.t().contiguous().t() - index // 4)
        x = torch.maximum(x * scale, x.t().contiguous().t() - index // 4)
    torch.testing.assert_close(got.sum(0).cpu(), x.sum(0))
    results.append(index)


results = []
threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    sum(range(1000))
print(sorted(results))
"""
# A backward pass makes kernels in a thread of autograd, which has never had the interpreter's lock.
BACKWARD = """
import torch
import torch_outboard

x = torch.rand(5, 7, dtype=torch.float64, device="ocl", requires_grad=True)
torch.logcumsumexp(x.sin(), 1).logsumexp(0).sum().backward()
y = x.detach().cpu().requires_grad_()
torch.logcumsumexp(y.sin(), 1).logsumexp(0).sum().backward()
torch.testing.assert_close(x.grad.cpu(), y.grad)
print("done")
"""


@pytest.mark.parametrize(
    ("code", "printed"), [(THREADS, "[0, 1, 2, 3, 4, 5, 6, 7]"), (BACKWARD, "done")]
)
def test_threads(tmp_path: Path, code: str, printed: str):
    out = run_program(code, OUTBOARD_DRIVER="ocl", OUTBOARD_CACHE_DIR=str(tmp_path))
    assert out.strip().splitlines()[-1] == printed
