"""Connectionist temporal classification, and its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import Row
from torch_outboard.ops.template import Launch, Result, templated

_DTYPES = (torch.float32, torch.float64)
_LENGTHS = ("input_lengths", "target_lengths")


def _on(
    device: torch.device, input_lengths: list[int], target_lengths: list[int]
) -> tuple[Tensor, Tensor]:
    # Where the kernels want them, by one copy.
    joined = torch.tensor(input_lengths + target_lengths, dtype=torch.int64, device=device)
    return joined[: len(input_lengths)], joined[len(input_lengths) :]


def _loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: list[int],
    target_lengths: list[int],
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    inputs, labels = _on(log_probs.device, input_lengths, target_lengths)
    return torch._ctc_loss(log_probs, targets, inputs, labels, blank, zero_infinity)


def _loss_backward(
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: list[int],
    target_lengths: list[int],
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool,
) -> Any:
    inputs, labels = _on(log_probs.device, input_lengths, target_lengths)
    return torch.ops.aten._ctc_loss_backward.Tensor(
        grad,
        log_probs,
        targets,
        inputs,
        labels,
        neg_log_likelihood,
        log_alpha,
        blank,
        zero_infinity,
    )


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
            results=Result("out", "sizes(log_probs)"),
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
            _loss,
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
            _loss_backward,
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
