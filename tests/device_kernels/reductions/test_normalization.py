"""Normalization by device kernels, against CPU."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import compare, with_gradients


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes).to(dtype).requires_grad_()


# Rows in slices of a group of a GPU, and rows that several groups take.
@pytest.mark.parametrize(("rows", "n"), [(700, 65), (2000, 3), (40, 1031)])
def test_gradients_of_layer_norm_over_many_rows(device, rows, n):
    norm = with_gradients(lambda x, w, b: F.layer_norm(x, (n,), w, b))
    compare(device, norm, leaf(rows, n), leaf(n), leaf(n), rtol=1e-3, atol=1e-3)


def test_layer_norm_with_wider_weights(device):
    values, weight, bias = leaf(9, 37, dtype=torch.bfloat16), leaf(37), leaf(37)
    compare(device, lambda x, w, b: F.layer_norm(x, (37,), w, b), values, weight, bias)
    wide = values.detach().double().requires_grad_()
    F.layer_norm(wide, (37,), weight.double(), bias.double()).sum().backward()
    moved = values.detach().to(device).requires_grad_()
    F.layer_norm(moved, (37,), weight.to(device), bias.to(device)).sum().backward()
    assert_close(moved.grad.cpu().double(), wide.grad, rtol=0.02, atol=0.02)


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
        # A GPU takes parts of channels, by vectors or not, of which one is shorter.
        ((17, 7, 20, 17), torch.contiguous_format),
        ((17, 7, 19, 17), torch.contiguous_format),
    ],
)
def test_batch_norm(device, sizes, layout):
    values = torch.randn(sizes).to(memory_format=layout)
    ran = compare(
        device,
        batch_norm_in_both_modes,
        values.requires_grad_(),
        leaf(7),
        leaf(7),
        torch.zeros(7),
        torch.ones(7),
    )
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward"} <= ran


def test_batch_norm_updates_strided_statistics(device):
    mean = torch.zeros(6, device=device)[::2]
    values = torch.randn(4, 3)
    F.batch_norm(values.to(device), mean, torch.ones(3, device=device), training=True)
    assert_close(mean.cpu(), 0.1 * values.mean(0))


def test_only_the_wanted_gradients(device):
    """Of any two of the input, the weight and the bias."""

    def run(x, weight, bias):
        leaves = [t for t in (x, weight, bias) if t.requires_grad]
        result = F.layer_norm(x, (8,), weight, bias)
        return torch.autograd.grad(result, leaves, torch.cos(result.detach()))

    for wanted in itertools.product((False, True), repeat=3):
        if any(wanted):
            operands = [torch.randn(sizes) for sizes in ((4, 8), (8,), (8,))]
            for operand, is_wanted in zip(operands, wanted, strict=True):
                operand.requires_grad_(is_wanted)
            compare(device, run, *operands)


def test_batch_norm_updates_statistics_before_it_rounds_those_of_float16(device):
    # What is left of the running mean and variance are the roundings of those of the batch.
    values = 3 * torch.randn(8, 3).half() + 2
    variance, mean = (t.half() for t in torch.var_mean(values.double(), 0))

    def run(x, mean, variance):
        torch.native_batch_norm(x, None, None, mean, variance, True, 0.5, 1e-5)
        return mean, variance

    expected = run(values, -mean, -variance)
    assert any(e.count_nonzero() for e in expected)
    actual = run(values.to(device), -mean.to(device), -variance.to(device))
    for got, want in zip(actual, expected, strict=True):
        assert_close(got.cpu(), want, rtol=0.02, atol=1e-5)


def test_layer_norm_of_no_rows(device):
    run = with_gradients(lambda x, w, b: F.layer_norm(x, [3], w, b))
    operands = [torch.ones(*sizes).requires_grad_() for sizes in ((0, 3), (3,), (3,))]
    compare(device, run, *operands)
