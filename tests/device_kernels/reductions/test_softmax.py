"""Softmax by device kernels, against CPU."""

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.on_device import compare, with_gradients


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize(("shape", "dim"), [((5, 37), -1), ((3, 7, 21), 1)])
def test_softmax_and_gradient(device, function, shape, dim):
    values = (torch.randn(shape) * 3).requires_grad_()
    ran = compare(device, with_gradients(lambda x: function(x, dim)), values)
    name = function.__name__
    assert {f"aten::_{name}", f"aten::_{name}_backward_data"} <= ran


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(device, dtype):
    compare(device, lambda x: torch.softmax(x, -1), torch.randn(4, 19).to(dtype))


def test_rows_of_infinities_and_nan(device):
    values = torch.randn(5, 11)
    values[0] = -torch.inf
    values[1, 3] = -torch.inf
    values[2, 4] = torch.inf
    values[3, 5] = torch.nan
    compare(device, lambda x: (torch.softmax(x, 1), torch.log_softmax(x, 1)), values)


def test_output_of_another_layout(device):
    values = torch.randn(6, 5)
    out = torch.empty(5, 6, device=device).t()
    torch.softmax(values.to(device), 1, out=out)
    assert_close(out.cpu(), torch.softmax(values, 1))


def test_large_values_keep_their_precision(device):
    values = torch.randn(3, 1000) * 30
    compare(device, lambda x: torch.log_softmax(x, 1), values)


@pytest.mark.parametrize("dim", [0, 1])
def test_gradcheck(device, dim):
    values = torch.randn(3, 5, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.softmax(x, dim), values)
    assert torch.autograd.gradcheck(lambda x: torch.log_softmax(x, dim), values)
