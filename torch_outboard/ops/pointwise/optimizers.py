"""Fused optimizers, and the operators of torch.amp.GradScaler."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from torch_outboard.ops.definition import FLOATS, HALVES, Definition
from torch_outboard.ops.expression import pointwise
from torch_outboard.ops.symbolic import (
    Float,
    SymBool,
    SymFloat,
    SymInt,
    SymTensor,
    given,
    has_dtype,
    log,
    where,
)
from torch_outboard.ops.template import Plan, template

_SCALING = ("found_inf", "grad_scale")  # arguments of torch.amp.GradScaler


def _define(
    overloads: str,
    lists: Mapping[str, str],
    outputs: dict[str, str],
    scalars: str,
    derived: Callable[..., Mapping[str, Float]] | None = None,
    once: dict[str, str] | None = None,
    condition: Callable[..., SymBool | bool] = lambda **_: True,
) -> list[Definition]:
    """Definitions without torch.amp.GradScaler, with unscaled gradients, with gradients to unscale.

    Args:
        lists: from list arguments to their names in expressions.
        outputs: the new value of each name.
        scalars: names of arguments, separated by blanks.
        once: expressions of scalars and the step, computed once for many elements.
    """

    def define(*common: str) -> Definition:
        def served(**arguments: Any) -> SymBool:
            scaled = [given(arguments[name]) == (name in common) for name in _SCALING]
            return scaled[0] & scaled[1] & condition(**arguments)

        new = dict(outputs)
        if "grad_scale" in common:
            divided = "(grad / grad_scale)"
            new = {name: re.sub(r"\bgrad\b", divided, value) for name, value in new.items()}
            new["grad"] = divided
        if common:
            new = {name: f"(found_inf == C(1)) ? {name} : ({value})" for name, value in new.items()}
        return pointwise(
            overloads,
            {**lists, **{name: name for name in common}},
            list(new.values()),
            FLOATS,
            scalars=scalars,
            condition=served,
            types="self",
            updated=list(new),
            uniform=["step"] if once else [],
            derived=derived,
            once=once or {},
        )

    return [define(), define("found_inf"), define(*_SCALING)]


def _sign(maximize: SymBool) -> dict[str, Float]:
    return {"sign": where(maximize, -1.0, 1.0)}


def _of_decay_rates(beta1: SymFloat, beta2: SymFloat, maximize: SymBool) -> dict[str, Float]:
    # In double precision, whatever the precision of the kernel.
    return {
        **_sign(maximize),
        "one_less_beta1": 1 - beta1,
        "one_less_beta2": 1 - beta2,
        "log_beta1": log(beta1),
        "log_beta2": log(beta2),
    }


def _adam(name: str, decoupled: bool, with_largest: bool) -> list[Definition]:
    gradient = "(sign * grad)"
    weight = "param"
    if decoupled:
        weight = "(param - lr * weight_decay * param)"
    else:
        gradient = f"({gradient} + weight_decay * param)"
    mean = f"(mean + one_less_beta1 * ({gradient} - mean))"
    square = f"(beta2 * square_mean + one_less_beta2 * {gradient} * {gradient})"
    largest = f"maximum(largest, {square})"
    # -expm1(step * log(beta)) is 1 - beta ** step without cancellation.
    once = {"rate": "lr / -expm1(step * log_beta1)", "scale": "1 / sqrt(-expm1(step * log_beta2))"}
    denominator = f"(sqrt({largest if with_largest else square}) * scale + eps)"
    outputs = {
        "param": f"{weight} - rate * {mean} / {denominator}",
        "mean": mean,
        "square_mean": square,
    }
    lists = {"self": "param", "grads": "grad", "exp_avgs": "mean", "exp_avg_sqs": "square_mean"}
    if with_largest:
        outputs["largest"] = largest
        lists["max_exp_avg_sqs"] = "largest"
    return _define(
        f"{name} {name}.tensor_lr",
        {**lists, "state_steps": "step"},
        outputs,
        "lr beta1 beta2 weight_decay eps",
        _of_decay_rates,
        once,
        lambda amsgrad, beta1, beta2, max_exp_avg_sqs, **_: (
            (amsgrad == with_largest)
            & (amsgrad | (max_exp_avg_sqs.len() == 0))
            & (beta1 >= 0)
            & (beta2 >= 0)
        ),
    )


def _sgd(momentum: bool, nesterov: bool, first: bool) -> list[Definition]:
    gradient = "(sign * grad + weight_decay * param)"
    names = "_fused_sgd_ _fused_sgd_.tensor_lr"
    if not momentum:
        outputs = {"param": f"param - lr * {gradient}"}
        lists = {"self": "param", "grads": "grad"}
        return _define(
            names,
            lists,
            outputs,
            "lr weight_decay",
            _sign,
            condition=lambda momentum, momentum_buffer_list, **_: (
                (momentum == 0) & (momentum_buffer_list.len() == 0)
            ),
        )
    buffer = gradient
    if not first:
        buffer = f"(momentum * buffer + (C(1) - dampening) * {gradient})"
    step = f"({gradient} + momentum * {buffer})" if nesterov else buffer
    return _define(
        names,
        {"self": "param", "grads": "grad", "momentum_buffer_list": "buffer"},
        {"param": f"param - lr * {step}", "buffer": buffer},
        "lr weight_decay momentum dampening",
        _sign,
        # CPU rejects momentum buffers without momentum.
        condition=lambda momentum, **rest: (
            (rest["nesterov"] == nesterov) & (rest["is_first_step"] == first) & (momentum > 0)
        ),
    )


def _adagrad() -> list[Definition]:
    gradient = "(sign * grad + weight_decay * param)"
    total = f"(sum + {gradient} * {gradient})"
    return _define(
        "_fused_adagrad_",
        {"self": "param", "grads": "grad", "state_sums": "sum", "state_steps": "step"},
        {"param": f"param - rate * {gradient} / (sqrt({total}) + eps)", "sum": total},
        "lr lr_decay weight_decay eps",
        _sign,
        once={"rate": "lr / (1 + (step - 1) * lr_decay)"},
    )


# ---- Unscaling of gradients, and updates of the loss scale

# Multiplies gradients by the inverse scale and reports whether one is not finite.
_unscale = pointwise(
    "_amp_foreach_non_finite_check_and_unscale_",
    "self inv_scale",
    "self * inv_scale",
    (*HALVES, torch.float32),
    condition=lambda inv_scale: has_dtype(inv_scale, torch.float32),
    family="pointwise",
    types="self",
    updated=["self"],
    flag="found_inf",
    flag_if="!isfinite(self)",
)


@template(
    "_amp_update_scale_",
    "loss_scale",
    dtypes=(torch.float32,),
    accepts={"growth_tracker": (torch.int32,)},
    family="pointwise",
)
def _update_scale(
    plan: Plan,
    self: SymTensor,
    growth_tracker: SymTensor,
    found_inf: SymTensor,
    scale_growth_factor: SymFloat,
    scale_backoff_factor: SymFloat,
    growth_interval: SymInt,
) -> None:
    plan.require(self.numel() == 1, growth_tracker.numel() == 1, found_inf.numel() == 1)
    plan.result("out", self.shape)
    plan.parameters(
        growth=scale_growth_factor, backoff=scale_backoff_factor, interval=growth_interval
    )
    plan.launch("update_loss_scale", 1)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    flags = (False, True)
    variants = [
        _sgd(False, False, False),
        *(_sgd(True, nesterov, first) for nesterov in flags for first in flags),
        *(_adam("_fused_adam_", False, amsgrad) for amsgrad in flags),
        *(_adam("_fused_adamw_", True, amsgrad) for amsgrad in flags),
        _adagrad(),
    ]
    return [
        _unscale,
        _update_scale,
        *(definition for variant in variants for definition in variant),
    ]
