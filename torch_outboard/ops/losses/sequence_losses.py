"""Connectionist temporal classification, and its gradient."""

from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import INDICES, WIDE, Definition
from torch_outboard.ops.symbolic import SymBool, SymInt, SymInts, SymTensor, maximum, minimum
from torch_outboard.ops.template import Plan, template

_ACCEPTS = {
    "targets": INDICES,
    "input_lengths": (torch.int64,),
    "target_lengths": (torch.int64,),
}


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        _losses,
        _losses_backward,
        decomposition(
            "_ctc_loss", _loss, dtypes=WIDE, condition=_lengths_are_sizes, meta="aten::_ctc_loss"
        ),
        decomposition("_ctc_loss_backward", _loss_backward, dtypes=WIDE),
    ]


def _is_batch(log_probs: SymTensor) -> SymBool:
    return (log_probs.dim() == 3) & (log_probs.numel() > 0)


def _lengths_are_sizes(
    log_probs: SymTensor, input_lengths: SymInts, target_lengths: SymInts
) -> SymBool:
    return _is_batch(log_probs) & ((input_lengths + target_lengths).min() >= 0)


def _take_arguments(
    plan: Plan,
    log_probs: SymTensor,
    targets: SymTensor,
    input_lengths: SymTensor,
    target_lengths: SymTensor,
    blank: SymInt,
) -> None:
    """States conditions and parameters common to the losses and the gradient."""
    batch, classes = log_probs.size(1), log_probs.size(2)
    plan.require(
        _is_batch(log_probs),
        (targets.dim() == 1) | ((targets.dim() == 2) & (targets.size(0) == batch)),
        (blank >= 0) & (blank < classes),
        input_lengths.shape == [batch],
        target_lengths.shape == [batch],
    )
    plan.parameters(
        batch=batch,
        times=log_probs.size(0),
        classes=classes,
        blank=blank,
        target_columns=targets.size(-1),
        concatenated=targets.dim() == 1,
    )


def _launch_plan(plan: Plan, batch: SymInt) -> SymTensor:
    """Launches the kernel that writes the greatest target length and the offset of each target."""
    table = plan.temporary("plan", 3 * batch + 1, torch.int64)
    plan.launch("ctc_plan", 1)
    return table


@template("_ctc_loss.Tensor", "ctc_loss", dtypes=WIDE, accepts=_ACCEPTS, reports=RuntimeError)
def _losses(
    plan: Plan,
    log_probs: SymTensor,
    targets: SymTensor,
    input_lengths: SymTensor,
    target_lengths: SymTensor,
    blank: SymInt,
) -> None:
    _take_arguments(plan, log_probs, targets, input_lengths, target_lengths, blank)
    frames, batch = log_probs.size(0), log_probs.size(1)
    plan.parameters(most_labels=targets.size(-1))
    plan.constants(BACKWARD=False)
    longest = plan.read(_launch_plan(plan, batch))
    plan.result("losses", [batch])
    plan.result("log_alpha", [batch, frames, 2 * longest + 1])
    plan.launch("ctc_losses", groups=batch)


@template(
    "_ctc_loss_backward.Tensor", "ctc_loss", dtypes=WIDE, accepts=_ACCEPTS, reports=RuntimeError
)
def _losses_backward(
    plan: Plan,
    log_probs: SymTensor,
    targets: SymTensor,
    input_lengths: SymTensor,
    target_lengths: SymTensor,
    grad: SymTensor,
    neg_log_likelihood: SymTensor,
    log_alpha: SymTensor,
    blank: SymInt,
    zero_infinity: SymBool,
) -> None:
    _take_arguments(plan, log_probs, targets, input_lengths, target_lengths, blank)
    frames, batch = log_probs.size(0), log_probs.size(1)
    width = log_alpha.size(2)
    most = minimum(targets.size(-1), (width - 1) // 2)
    plan.require(
        (grad.shape == [batch]) & (neg_log_likelihood.shape == [batch]),
        (log_alpha.dim() == 3) & (log_alpha.shape[:2] == [batch, frames]) & (width > 0),
    )
    plan.parameters(most_labels=most, width=width, ignores_infinity=zero_infinity)
    plan.constants(BACKWARD=True)
    plan.result("out", log_probs.shape)
    _launch_plan(plan, batch)
    plan.temporary("following", maximum(batch * most, 1), torch.int32)
    plan.temporary("leads", maximum(batch * most, 1), torch.uint8)
    plan.temporary("log_beta", log_alpha.numel())
    plan.launch("ctc_equal_labels", batch * most)
    plan.launch("ctc_betas", groups=batch)
    plan.launch("ctc_gradient", groups=batch * frames)


def _on(
    device: torch.device, input_lengths: list[int], target_lengths: list[int]
) -> tuple[Tensor, Tensor]:
    # Moves both lists to the device by one copy.
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
    require(log_probs.dim() == 3 and log_probs.numel() > 0)
    require(len(input_lengths) == len(target_lengths) == log_probs.size(1))
    require(min(input_lengths + target_lengths) >= 0 and max(input_lengths) <= log_probs.size(0))
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
