"""Losses by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.on_device import compare, with_gradients

REDUCTIONS = ["none", "mean", "sum"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_elements(device, loss, reduction):
    run = with_gradients(lambda x, t: loss(x * 2, t, reduction=reduction))
    compare(device, run, torch.randn(7, 13).requires_grad_(), torch.randn(7, 13))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(device, reduction):
    values = torch.rand(7, 13)
    values[0, 0], values[0, 1] = 0, 1
    run = with_gradients(lambda x, t, w: F.binary_cross_entropy(x, t, w, reduction=reduction))
    compare(device, run, values.requires_grad_(), torch.rand(7, 13).round(), torch.rand(13))


def test_sums_of_many_elements(device):
    values, target = torch.randn(30_000), torch.randn(30_000)
    compare(
        device, lambda x, t: (F.mse_loss(x, t), F.mse_loss(x, t, reduction="sum")), values, target
    )
    compare(device, lambda x, t: F.mse_loss(x, t), torch.randn(0), torch.randn(0))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("sizes", [(6, 5), (2, 5, 3, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(device, reduction, sizes, weighted):
    target = torch.randint(0, 5, (sizes[0], *sizes[2:]))
    target.view(-1)[1] = -100
    weight = torch.rand(5) if weighted else None
    run = with_gradients(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction))
    ran = compare(device, run, torch.randn(sizes).requires_grad_(), target, weight)
    assert any(name.startswith("aten::nll_loss") and "backward" in name for name in ran)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nll_loss_in_half_precision(device, dtype):
    run = with_gradients(F.nll_loss)
    values = torch.randn(6, 5, dtype=dtype).requires_grad_()
    compare(device, run, values, torch.arange(6) % 5, atol=1e-3, rtol=2e-2)


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


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margin_losses(device, reduction):
    values = torch.randn(6, 5).requires_grad_()
    weight = torch.rand(5)
    for power in (1, 2):
        run = with_gradients(
            lambda x, t, w, p=power: F.multi_margin_loss(x, t, p, 0.7, w, reduction=reduction)
        )
        compare(device, run, values, torch.randint(0, 5, (6,)), weight)
    labels = torch.randint(0, 5, (6, 5))
    labels[:, 2] = -1
    run = with_gradients(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction))
    compare(device, run, values, labels)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.mse_loss(x, torch.zeros_like(x)),
        lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
        lambda x: F.huber_loss(x, torch.zeros_like(x)),
        lambda x: F.binary_cross_entropy(x.sigmoid(), torch.zeros_like(x)),
        lambda x: F.cross_entropy(x, torch.tensor([1, 0, 3], device=x.device)),
        lambda x: F.multi_margin_loss(x, torch.tensor([1, 0, 3], device=x.device)),
    ],
    ids=["mse", "smooth_l1", "huber", "bce", "cross_entropy", "multi_margin"],
)
def test_gradcheck(device, loss):
    values = torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(loss, values)
