"""Normalization and softmax by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import (
    assert_as_on_cpu,
    assert_raises_as_on_cpu,
    compare,
    with_gradients,
)


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes).to(dtype).requires_grad_()


# Rows in slices of a group of a GPU, and rows that several groups take.
@pytest.mark.parametrize(("rows", "n"), [(700, 65), (2000, 3), (40, 1031)])
def test_gradients_of_layer_norm_over_many_rows(device, rows, n):
    norm = with_gradients(lambda x, w, b: F.layer_norm(x, (n,), w, b))
    compare(device, norm, leaf(rows, n), leaf(n), leaf(n), rtol=1e-3, atol=1e-3)


def test_group_norm(device):
    compare(device, with_gradients(lambda x: F.group_norm(x, 5)), leaf(2, 10, 9, 31))


def test_layer_norm_with_wider_weights(device):
    values, weight, bias = leaf(9, 37, dtype=torch.bfloat16), leaf(37), leaf(37)
    compare(device, lambda x, w, b: F.layer_norm(x, (37,), w, b), values, weight, bias)
    wide = values.detach().double().requires_grad_()
    F.layer_norm(wide, (37,), weight.double(), bias.double()).sum().backward()
    moved = values.detach().to(device).requires_grad_()
    F.layer_norm(moved, (37,), weight.to(device), bias.to(device)).sum().backward()
    assert_close(moved.grad.cpu().double(), wide.grad, rtol=0.02, atol=0.02)


def test_one_gradient_of_layer_norm(device):
    """Of the input, the weight or the bias alone."""

    def run(x, weight, bias):
        leaves = [t for t in (x, weight, bias) if t.requires_grad]
        result = F.layer_norm(x, (8,), weight, bias)
        return torch.autograd.grad(result, leaves, torch.cos(result.detach()))

    for wanted in range(3):
        operands = [torch.randn(sizes) for sizes in ((4, 8), (8,), (8,))]
        operands[wanted].requires_grad_()
        compare(device, run, *operands)


def batch_norm_in_both_modes(x, weight, bias, mean, var):
    trained = F.batch_norm(x, mean, var, weight, bias, True, 0.2)
    trained.backward(torch.cos(trained.detach()))
    evaluated = F.batch_norm(x, mean, var, weight, bias, False)
    evaluated.square().sum().backward()
    return trained, evaluated, mean, var, x.grad, weight.grad, bias.grad


@pytest.mark.parametrize(
    ("sizes", "layout"),
    [
        ((5, 7, 3, 4), torch.channels_last),
        ((16, 7), torch.contiguous_format),
        # A GPU takes parts of channels, by vectors or not; one part is shorter.
        ((17, 7, 20, 17), torch.contiguous_format),
        ((17, 7, 19, 17), torch.contiguous_format),
    ],
)
def test_batch_norm(device, sizes, layout):
    values = torch.randn(sizes).to(memory_format=layout).requires_grad_()
    statistics = torch.zeros(7), torch.ones(7)
    # Groups of 12 add up in another order.
    ran = compare(
        device,
        batch_norm_in_both_modes,
        values,
        leaf(7),
        leaf(7),
        *statistics,
        rtol=1e-4,
        atol=1e-3,
    )
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward"} <= ran


def test_batch_norm_updates_strided_statistics(device):
    mean = torch.zeros(6, device=device)[::2]
    values = torch.randn(4, 3)
    F.batch_norm(values.to(device), mean, torch.ones(3, device=device), training=True)
    assert_close(mean.cpu(), 0.1 * values.mean(0))


def test_batch_norm_updates_statistics_before_it_rounds_those_of_float16(device):
    # The running mean and variance become the rounding errors of those of the batch.
    values = 3 * torch.randn(8, 3).half() + 2
    variance, mean = (t.half() for t in torch.var_mean(values.double(), 0))

    def run(values, mean, variance):
        torch.native_batch_norm(values, None, None, mean, variance, True, 0.5, 1e-5)
        return mean, variance

    assert any(e.count_nonzero() for e in run(values, -mean, -variance))
    compare(device, run, values, -mean, -variance, rtol=0.02, atol=1e-5)


# ---- weights as direction and length


OPERATORS = {"aten::_weight_norm_interface", "aten::_weight_norm_interface_backward"}


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weight_norm(device, dim, dtype):
    v = torch.randn(5, 4, 3, dtype=dtype)
    g = torch.rand([n if d == dim else 1 for d, n in enumerate(v.shape)], dtype=dtype) + 0.5
    run = with_gradients(lambda v, g: torch._weight_norm(v, g, dim))
    assert compare(device, run, v.requires_grad_(), g.requires_grad_()) >= OPERATORS


def test_weight_norm_of_half_types(device):
    def run(v, g, gradient):
        weight, norms = torch.ops.aten._weight_norm_interface(v, g, 0)
        backward = torch.ops.aten._weight_norm_interface_backward
        return weight, norms, backward(gradient, v, g, norms, 0)

    v, g, gradient = (torch.randn(5, n).bfloat16() for n in (40, 1, 40))
    assert_as_on_cpu(device, run, v, g, gradient)


def test_statistics_of_millions_of_elements(device):
    """Sums of positive numbers in float32 alone would have errors of 1e-5 and more."""
    x = torch.rand(1, 4_000_003)
    exact = F.layer_norm(x.double(), x.shape[1:]).float()
    rows = F.layer_norm(x.to(device), x.shape[1:])
    groups = F.group_norm(x.unsqueeze(1).to(device), 1)
    channels = F.batch_norm(x.view(1, 1, -1).to(device), None, None, training=True)
    batches = F.batch_norm(x.view(-1, 1).to(device), None, None, training=True)
    for result in (rows, groups, channels, batches):
        assert_close(result.cpu().view_as(x), exact, rtol=0, atol=1e-5)


# ---- softmax


masked_softmax = torch.ops.aten._masked_softmax


def test_rows_of_infinities_and_nan(device):
    values = torch.randn(5, 11)
    values[0] = -torch.inf
    values[1, 3] = -torch.inf
    values[2, 4] = torch.inf
    values[3, 5] = torch.nan
    compare(device, lambda x: (torch.softmax(x, 1), torch.log_softmax(x, 1)), values)


def test_columns_longer_than_vectors(device):
    values = (torch.randn(3, 37, 21) * 30).requires_grad_()  # whose exponentials overflow
    for function in (torch.softmax, torch.log_softmax):
        ran = compare(device, with_gradients(lambda x, f=function: f(x, 1)), values)
        assert f"aten::_{function.__name__}_backward_data" in ran


def mask_of(*sizes: int) -> torch.Tensor:
    mask = torch.rand(sizes) > 0.6
    mask.view(-1, sizes[-1])[0] = True  # nothing is left: NaN
    return mask


@pytest.mark.parametrize(
    ("sizes", "dim", "kind"),
    [
        ((2, 3, 4, 4), None, None), ((4, 4), -1, 0), ((2, 4), 1, 1),
        ((2, 3, 4, 4), 1, 2), ((4, 4), 2, 0), ((2, 4), -1, 1),
    ],
)  # fmt: skip
def test_masks(device, sizes, dim, kind):
    values, mask = torch.randn(2, 3, 4, 4), mask_of(*sizes)
    for x in (values, values.bfloat16()):
        assert_as_on_cpu(device, lambda x, m: masked_softmax(x, m, dim, kind), x, mask)


def test_gradients_with_masks(device):
    values, mask = torch.randn(2, 3, 4, 5).requires_grad_(), mask_of(2, 3, 4, 5)
    for dim in (None, 2):
        compare(device, with_gradients(lambda x, m, d=dim: masked_softmax(x, m, d)), values, mask)


def test_errors_of_masks_are_those_of_cpu(device):
    for sizes, kind in (((4, 4), None), ((4, 4), 7), ((3, 4), 0)):
        arguments = torch.randn(2, 3, 4, 4), mask_of(*sizes), -1, kind
        assert_raises_as_on_cpu(device, masked_softmax, *arguments)
