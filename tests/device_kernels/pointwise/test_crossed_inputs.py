"""On GPUs: inputs that lie along another dimension than the result go through tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program

pytestmark = pytest.mark.by_turns(2)

PRELUDE = """
import itertools
import torch
from tests.device_kernels import gpu_driver

gpu_driver.use()
torch.manual_seed(0)


def compare(function, *inputs):
    expected = function(*inputs)
    found = function(*[x.to("ocl") for x in inputs])
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-6)

"""

# Sizes around those of tiles and vectors.
TYPES = """
for rows, columns in [(8, 8), (33, 65), (100, 9), (64, 31)]:
    for dtype in DTYPES:
        x = (torch.randn(rows, columns) * 5).to(dtype)
        compare(lambda x: x.t().contiguous(), x)
        compare(lambda x: x[:, 1:].t().contiguous(), x)
        if dtype.is_floating_point:
            y = (torch.randn(columns, rows) * 5).to(dtype)
            compare(lambda x, y: y + x.t(), x, y)
            compare(lambda x, y: y * x.t().float(), x, y)
            compare(lambda x, y: torch.where(y > 0, x.t(), y), x, y)
            compare(lambda x, y: y.clone().add_(x.t()), x, y)
assert any("__kernel void crossed(" in text for text in gpu_driver.sources)
"""

ORDERS = """
z = torch.randn(3, 9, 17, 40)
for order in itertools.permutations(range(4)):
    compare(lambda z: z.permute(order).contiguous(), z)
    compare(lambda z: z.permute(order).contiguous() + z.permute(order), z)
compare(lambda z: z.to(memory_format=torch.channels_last), z)
compare(lambda c: c.t().contiguous(), torch.randn(20, 30, dtype=torch.complex64))
compare(lambda x: x.t().contiguous(), torch.randn(3, 2000))
compare(lambda x: x.t().contiguous(), torch.randn(2000, 3))
"""


@pytest.mark.parametrize(
    ("dtypes", "more"),
    [
        ("torch.float32", ""),
        pytest.param(
            "torch.float64, torch.bfloat16, torch.int8, torch.float16, torch.int64, torch.bool",
            ORDERS,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_values(tmp_path: Path, dtypes: str, more: str):
    program = f"{PRELUDE}DTYPES = [{dtypes}]\n{TYPES}{more}"
    run_program(program, timeout=600, OUTBOARD_DRIVER="ocl", OUTBOARD_CACHE_DIR=str(tmp_path))
