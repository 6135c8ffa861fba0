"""Connectionist temporal classification, and its gradient."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import Row
from torch_outboard.ops.template import Launch, Result, templated

_DTYPES = (torch.float32, torch.float64)
_LENGTHS = ("input_lengths", "target_lengths")

# The kernels want lengths on the device.
_MOVED = """
n = log_probs.size(1)
lengths = torch.tensor(input_lengths + target_lengths, dtype=torch.int64, device=log_probs.device)
"""


def rows() -> list[Row]:
    """Every row."""
    shapes = [
        "dims(log_probs) == 3 && numel(log_probs) > 0",
        "dims(targets) == 1 || (dims(targets) == 2 && size(targets, 0) == batch)",
        "0 <= blank && blank < size(log_probs, 2)",
        *(f"sizes({lengths}) == [batch]" for lengths in _LENGTHS),
    ]
    let = {"batch": "size(log_probs, 1)", "frames": "size(log_probs, 0)"}
    numbers = {
        "batch": "batch",
        "times": "frames",
        "classes": "size(log_probs, 2)",
        "blank": "blank",
        "target_columns": "size(targets, -1)",
        "concatenated": "dims(targets) == 1",
    }
    common: dict[str, Any] = {"dtypes": _DTYPES, "family": "loss", "reports": "RuntimeError"}
    accepts = {"targets": "int32 int64", **dict.fromkeys(_LENGTHS, "int64")}
    plan = Result("plan", "3 * batch + 1", "int64")
    operands = "log_probs targets input_lengths target_lengths"
    return [
        templated(
            "_ctc_loss.Tensor",
            "ctc_loss",
            [Launch("ctc_plan", "1"), Launch("ctc_losses", "batch", groups=True)],
            operands=operands,
            accepts=accepts,
            results=[
                Result("losses", "[batch]"),
                Result("log_alpha", "[batch, frames, 2 * longest + 1]"),
            ],
            temporaries=[plan],
            let=let,
            numbers={**numbers, "most_labels": "size(targets, -1)"},
            constants={"BACKWARD": "0"},
            conditions=shapes,
            reads={"longest": "plan"},
            read_after=1,
            **common,
        ),
        templated(
            "_ctc_loss_backward.Tensor",
            "ctc_loss ctc_loss_backward",
            [
                Launch("ctc_plan", "1"),
                Launch("ctc_equal_labels", "batch * most"),
                Launch("ctc_betas", "batch", groups=True),
                Launch("ctc_gradient", "batch * frames", groups=True),
            ],
            operands=f"{operands} grad neg_log_likelihood log_alpha",
            accepts=accepts,
            results=Result("out", "sizes(log_probs)", like="log_probs"),
            temporaries=[
                plan,
                Result("following", "max(batch * most, 1)", "int32"),
                Result("leads", "max(batch * most, 1)", "uint8"),
                Result("log_beta", "numel(log_alpha)"),
            ],
            let={
                **let,
                "width": "size(log_alpha, 2)",
                "most": "min(size(targets, -1), (width - 1) // 2)",
            },
            numbers={
                **numbers,
                "most_labels": "most",
                "width": "width",
                "ignores_infinity": "zero_infinity",
            },
            constants={"BACKWARD": "1"},
            conditions=[
                *shapes,
                "sizes(grad) == [batch] && sizes(neg_log_likelihood) == [batch]",
                "dims(log_alpha) == 3 && sizes(log_alpha)[:2] == [batch, frames] && width > 0",
            ],
            **common,
        ),
        composed(
            "_ctc_loss",
            f"{_MOVED}"
            "return torch._ctc_loss("
            "log_probs, targets, lengths[:n], lengths[n:], blank, zero_infinity)",
            dtypes=_DTYPES,
            conditions=[
                "dims(log_probs) == 3 && numel(log_probs) > 0",
                "min_of(input_lengths + target_lengths) >= 0",
            ],
            meta="aten::_ctc_loss",
            family="loss",
        ),
        composed(
            "_ctc_loss_backward",
            f"{_MOVED}"
            "return torch._ctc_loss_backward(grad, log_probs, targets, lengths[:n], lengths[n:], "
            "neg_log_likelihood, log_alpha, blank, zero_infinity)",
            dtypes=_DTYPES,
            conditions=[
                "dims(log_probs) == 3 && numel(log_probs) > 0",
                *(f"len({lengths}) == size(log_probs, 1)" for lengths in _LENGTHS),
                "min_of(input_lengths + target_lengths) >= 0",
                "max_of(input_lengths) <= size(log_probs, 0)",
            ],
            family="loss",
        ),
    ]
