"""On GPUs: inputs that lie along another dimension than the result go through tiles."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.device_kernels import gpu_driver
from tests.device_kernels.on_device import difference
from tests.device_kernels.processes import run_program

pytestmark = pytest.mark.by_turns(2)


def check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    assert difference(torch.device("ocl", 0), function, *inputs) is None


def types(*dtypes: torch.dtype) -> None:
    """Sizes around those of tiles and vectors."""
    for (rows, columns), dtype in itertools.product(((8, 8), (33, 65), (100, 9), (64, 31)), dtypes):
        x, y = ((torch.randn(rows, columns) * 5).to(dtype) for _ in range(2))
        check(lambda x: x.t().contiguous(), x)
        check(lambda x: x[:, 1:].t().contiguous(), x)
        if dtype.is_floating_point:
            y = y.t().contiguous()
            check(lambda x, y: y + x.t(), x, y)
            check(lambda x, y: y * x.t().float(), x, y)
            check(lambda x, y: torch.where(y > 0, x.t(), y), x, y)
            check(lambda x, y: y.clone().add_(x.t()), x, y)
    assert any("__kernel void crossed(" in source for source in gpu_driver.sources)


def orders() -> None:
    z = torch.randn(3, 9, 17, 40)
    for order in itertools.permutations(range(4)):
        check(lambda z, order=order: z.permute(order).contiguous(), z)
        check(lambda z, order=order: z.permute(order).contiguous() + z.permute(order), z)
    check(lambda z: z.to(memory_format=torch.channels_last), z)
    for x in (torch.randn(20, 30).to(torch.complex64), torch.randn(3, 2000), torch.randn(2000, 3)):
        check(lambda x: x.t().contiguous(), x)


OTHERS = "torch.float64, torch.bfloat16, torch.int8, torch.float16, torch.int64, torch.bool"
SLOW = [pytest.param(work, marks=pytest.mark.slow) for work in (f"types({OTHERS})", "orders()")]


@pytest.mark.parametrize("work", ["types(torch.float32)", *SLOW])
def test_values(tmp_path: Path, work: str):
    program = f"""
        import torch
        from tests.device_kernels import gpu_driver

        gpu_driver.use()
        from tests.device_kernels.pointwise.test_crossed_inputs import orders, types

        {work}
    """
    run_program(program, timeout=600, OUTBOARD_DRIVER="ocl", OUTBOARD_CACHE_DIR=str(tmp_path))
