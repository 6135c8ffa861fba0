"""Operators with index tensors by device kernels, against CPU."""

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex128]
)
def test_gather_of_any_layout(device, dtype):
    values = (torch.randn(4, 5, 6) * 5).to(dtype)
    index = torch.randint(0, 5, (4, 3, 2))
    with fallback.report() as report:
        result = torch.gather(values.to(device), 1, index.to(device))
        turned = torch.gather(
            values.to(device).transpose(0, 2), -2, index.to(device).transpose(0, 2)
        )
    assert_close(result.cpu(), torch.gather(values, 1, index))
    assert_close(turned.cpu(), torch.gather(values.transpose(0, 2), -2, index.transpose(0, 2)))
    assert {row.way for row in report.rows if row.op == "aten::gather"} == {"device"}
