"""Connectionist temporal classification by device kernels, against CPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_raises_as_on_cpu, compare, with_gradients

TIMES, SAMPLES, CLASSES, LABELS = 17, 5, 6, 6
# No labels, no times, and labels that need more times than there are.
INPUT_LENGTHS, TARGET_LENGTHS = [17, 9, 17, 0, 5], [6, 3, 0, 1, 6]


def targets(concatenated: bool, dtype: torch.dtype = torch.int64) -> torch.Tensor:
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
    ran = compare(device, with_gradients(loss), scores, targets(concatenated, kind))
    assert {"aten::_ctc_loss", "aten::_ctc_loss_backward"} <= ran


def test_lengths_in_tensors(device):
    scores = torch.randn(TIMES, SAMPLES, CLASSES).log_softmax(2)
    lengths = [torch.tensor(INPUT_LENGTHS), torch.tensor(TARGET_LENGTHS)]
    labels = targets(False)
    ours, alpha = torch._ctc_loss(*(x.to(device) for x in (scores, labels, *lengths)), blank=1)
    theirs, their_alpha = torch._ctc_loss(scores, labels, *lengths, blank=1)
    assert_close(ours.cpu(), theirs)
    assert alpha.shape == their_alpha.shape
    assert_close(alpha[0].cpu(), their_alpha[0])
    lengths[1][1] = 100
    torch._ctc_loss(*(x.to(device) for x in (scores, labels, *lengths)), blank=1)
    with pytest.raises(RuntimeError, match="index out of range"):
        torch.accelerator.synchronize()


@pytest.mark.parametrize(
    "change",
    [{"input_lengths": [18, 9, 17, 0, 5]}, {"target_lengths": [6, 3, 0, 1]}, {"blank": 6}],
)
def test_errors_are_those_of_cpu(device, change):
    arguments = {"input_lengths": INPUT_LENGTHS, "target_lengths": TARGET_LENGTHS, "blank": 1}
    scores = torch.randn(TIMES, SAMPLES, CLASSES)
    loss = partial(torch.ctc_loss, **(arguments | change))
    assert_raises_as_on_cpu(device, loss, scores, targets(False))
