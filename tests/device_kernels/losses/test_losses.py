"""Losses by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.on_device import compare, with_gradients


def test_logarithms_of_zero(device):
    values = torch.rand(7, 13)
    values[0, 0], values[0, 1] = 0, 1
    run = with_gradients(F.binary_cross_entropy)
    compare(device, run, values.requires_grad_(), torch.rand(7, 13).round(), torch.rand(13))


def test_sums_of_many_elements(device):
    values, target = torch.randn(30_000), torch.randn(30_000)
    compare(
        device, lambda x, t: (F.mse_loss(x, t), F.mse_loss(x, t, reduction="sum")), values, target
    )
    compare(device, lambda x, t: F.mse_loss(x, t), torch.randn(0), torch.randn(0))


@pytest.mark.parametrize("sizes", [(3000, 5), (2, 5, 30, 41), (0, 5)])
def test_cross_entropy_of_many_elements(device, sizes):
    """On a GPU by several groups."""
    target = torch.randint(0, 5, (sizes[0], *sizes[2:]))
    weight = torch.rand(5)
    run = lambda x, t, w: (F.nll_loss(x, t, w), F.nll_loss(x, t, reduction="sum"))  # noqa: E731
    # Terms of both signs: the sum is small beside them, and CPU adds in another order.
    compare(device, run, torch.randn(sizes), target, weight, atol=1e-3, rtol=1e-5)


def test_targets_all_ignored(device):
    run = lambda x, t: (F.nll_loss(x, t), F.nll_loss(x, t, reduction="sum"))  # noqa: E731
    compare(device, run, torch.randn(3, 5), torch.full((3,), -100))


def test_a_target_that_is_no_class_gives_nan(device):
    values, target = torch.randn(3, 5, device=device), torch.tensor([0, 7, 1], device=device)
    loss = F.nll_loss(values, target, reduction="none")
    with pytest.raises(IndexError):
        torch.accelerator.synchronize()
    assert loss.isnan().tolist() == [False, True, False]


def test_fewer_labels_than_classes(device):
    labels = torch.randint(0, 5, (6, 5))
    labels[:, 2] = -1
    for reduction in ("none", "mean", "sum"):
        run = with_gradients(lambda x, t, r=reduction: F.multilabel_margin_loss(x, t, reduction=r))
        compare(device, run, torch.randn(6, 5).requires_grad_(), labels)
