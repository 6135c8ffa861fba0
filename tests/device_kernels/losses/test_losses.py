"""Losses by device kernels, against CPU."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_raises_as_on_cpu, compare, with_gradients


def test_logarithms_of_zero(device):
    values = torch.rand(7, 13)
    values[0, 0], values[0, 1] = 0, 1
    run = with_gradients(F.binary_cross_entropy)
    compare(device, run, values.requires_grad_(), torch.rand(7, 13).round(), torch.rand(13))


def test_sums_of_many_elements(device):
    for loss in (F.mse_loss, F.huber_loss):
        for reduction in ("mean", "sum"):
            run = partial(loss, reduction=reduction)
            compare(device, run, torch.randn(30_000), torch.randn(30_000))


@pytest.mark.parametrize("sizes", [(3000, 5), (2, 5, 30, 41), (0, 5)])
def test_cross_entropy_of_many_elements(device, sizes):
    """On a GPU by several groups."""
    target = torch.randint(0, 5, (sizes[0], *sizes[2:]))
    weight = torch.rand(5)
    run = lambda x, t, w: (F.nll_loss(x, t, w), F.nll_loss(x, t, reduction="sum"))  # noqa: E731
    # Terms of both signs: the sum is small beside them, and CPU adds in another order.
    compare(device, run, torch.randn(sizes), target, weight, atol=1e-3, rtol=1e-5)


def test_targets_all_ignored(device):
    compare(device, F.nll_loss, torch.randn(3, 5), torch.full((3,), -100))


def test_a_target_that_is_no_class_gives_nan(device):
    values, target = torch.randn(3, 5, device=device), torch.tensor([0, 7, 1], device=device)
    loss = F.nll_loss(values, target, reduction="none")
    with pytest.raises(IndexError):
        torch.accelerator.synchronize()
    assert loss.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("target", [torch.tensor(2), torch.tensor([2])])
def test_one_row_has_the_shape_of_its_target(device, target):
    loss = partial(F.multi_margin_loss, reduction="none")
    compare(device, with_gradients(loss), torch.randn(5).requires_grad_(), target)


def test_fewer_labels_than_classes(device):
    labels = torch.randint(0, 5, (6, 5))
    labels[:, 2] = -1
    compare(
        device, with_gradients(F.multilabel_margin_loss), torch.randn(6, 5).requires_grad_(), labels
    )


# ---- connectionist temporal classification


TIMES, SAMPLES, CLASSES, LABELS = 17, 5, 6, 6
# No labels, no times, and labels that need more times than there are.
INPUT_LENGTHS, TARGET_LENGTHS = [17, 9, 17, 0, 5], [6, 3, 0, 1, 6]


def targets_of(concatenated: bool, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """None of the class 1, which is the blank."""
    labels = torch.randint(2, CLASSES, (SAMPLES, LABELS), dtype=dtype)
    labels[0] = torch.tensor([0, 2, 2, 2, 0, 0])
    if not concatenated:
        return labels
    return torch.cat([row[:n] for row, n in zip(labels, TARGET_LENGTHS, strict=True)])


@pytest.mark.parametrize(
    ("dtype", "concatenated", "reduction", "zero_infinity"),
    [
        (torch.float32, False, "mean", False),
        (torch.float32, True, "sum", True),
        (torch.float64, True, "none", False),
        (torch.float64, False, "none", True),
    ],
    ids=str,
)
def test_loss_and_gradient(device, dtype, concatenated, reduction, zero_infinity):
    def loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(
            scores.log_softmax(2), labels, INPUT_LENGTHS, TARGET_LENGTHS, blank=1,
            reduction=reduction, zero_infinity=zero_infinity,
        )  # fmt: skip

    scores = torch.randn(TIMES, SAMPLES, CLASSES, dtype=dtype, requires_grad=True)
    kind = torch.int32 if concatenated else torch.int64
    ran = compare(device, with_gradients(loss), scores, targets_of(concatenated, kind))
    assert {"aten::_ctc_loss", "aten::_ctc_loss_backward"} <= ran


def test_lengths_in_tensors(device):
    scores = torch.randn(TIMES, SAMPLES, CLASSES).log_softmax(2)
    lengths = [torch.tensor(INPUT_LENGTHS), torch.tensor(TARGET_LENGTHS)]
    labels = targets_of(False)
    ours, alpha = torch._ctc_loss(*(x.to(device) for x in (scores, labels, *lengths)), blank=1)
    theirs, their_alpha = torch._ctc_loss(scores, labels, *lengths, blank=1)
    assert_close(ours.cpu(), theirs)
    assert alpha.shape == their_alpha.shape
    assert_close(alpha[0].cpu(), their_alpha[0])
    lengths[1][1] = 100
    torch._ctc_loss(*(x.to(device) for x in (scores, labels, *lengths)), blank=1)
    with pytest.raises(RuntimeError, match="index out of range"):
        torch.accelerator.synchronize()


def test_errors_are_those_of_cpu(device):
    given = {"input_lengths": INPUT_LENGTHS, "target_lengths": TARGET_LENGTHS, "blank": 1}
    scores = torch.randn(TIMES, SAMPLES, CLASSES)
    for wrong in (
        {"input_lengths": [18, 9, 17, 0, 5]}, {"target_lengths": [6, 3, 0, 1]}, {"blank": 6},
    ):  # fmt: skip
        loss = partial(torch.ctc_loss, **(given | wrong))
        assert_raises_as_on_cpu(device, loss, scores, targets_of(False))
