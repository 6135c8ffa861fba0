"""Tensors made of numbers by device kernels, against CPU."""

import pytest
import torch
from torch.testing import assert_close

from torch_outboard import fallback


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.arange(1000, device=device),
        lambda device: torch.arange(1, 9.5, 0.7, device=device),
        lambda device: torch.arange(2**40, 2**40 + 9, 2, device=device),
        lambda device: torch.arange(10, 0, -3, dtype=torch.float16, device=device),
        lambda device: torch.arange(10, 0, -3, dtype=torch.uint8, device=device),
        lambda device: torch.arange(0.5, 6.5, 1.5, dtype=torch.int64, device=device),
        lambda device: torch.linspace(-1, 5, 101, device=device),
        lambda device: torch.linspace(3, 5, 1, device=device),
        lambda device: torch.logspace(-1, 2, 9, base=2, device=device),
        lambda device: torch.logspace(-3, 4.3, 9, base=3, dtype=torch.complex64, device=device),
        lambda device: torch.logspace(-3, 4.3, 9, base=-2, dtype=torch.complex64, device=device),
        lambda device: torch.eye(3, 5, device=device),
        lambda device: torch.eye(4, dtype=torch.complex64, device=device),
        lambda device: torch.arange(6, out=torch.empty(2, dtype=torch.int64, device=device)),
    ],
)
def test_numbers(device, make):
    with fallback.report() as report:
        result = make(device)
    assert_close(result.cpu(), make(torch.device("cpu")))
    assert {row.way for row in report.rows} == {"device"}
