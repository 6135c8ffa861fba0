"""Activations and their derivatives: operator definitions of the kind `pointwise`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from torch_outboard.ops.definition import COMPLEX, FLOATS, Definition
from torch_outboard.ops.expression import FORMS, Names, PointwiseProperties, pointwise
from torch_outboard.ops.requirements import Requirement, at_least, of_dtype_of

GRAD = {"grad_output": "grad", "self": "self"}
GRAD_OF_RESULT = {"grad_output": "grad", "output": "y"}


def _forward(
    name: str,
    expression: str,
    scalars: Names = "",
    requires: Mapping[str, Requirement] | None = None,
) -> Definition:
    """An activation of real numbers; results have the dtype of `self`."""
    return pointwise(
        FORMS.replace("{}", name), "self", expression, FLOATS, scalars=scalars, requires=requires,
        same_output=True,
    )  # fmt: skip


def _backward(
    name: str,
    expression: str,
    scalars: Names = "",
    requires: Mapping[str, Requirement] | None = None,
    operands: Names = GRAD,
    **properties: Unpack[PointwiseProperties],
) -> Definition:
    """The derivative of an activation of real numbers."""
    return pointwise(
        f"{name}_backward {name}_backward.grad_input", operands, expression, FLOATS,
        scalars=scalars, requires=requires, **properties,
    )  # fmt: skip


def definitions() -> list[Definition]:
    """Every operator definition of this module."""

    def forms(name: str) -> str:
        return FORMS.replace("{}", name)

    erf_gate = "C(0.5) * (C(1) + erf(self * C(0.70710678118654752440)))"
    inner = "(C(0.7978845608028654) * (self + C(0.044715) * self * self * self))"
    exact: Mapping[str, Requirement] = {"approximate": "none"}
    approximate: Mapping[str, Requirement] = {"approximate": "tanh"}
    softplus = "(self * beta > threshold)"
    # The result has the sign of the argument if the slope is not negative.
    sign_of_argument: tuple[dict[str, Requirement], ...] = (
        {"self_is_result": False},
        {"self_is_result": True, "negative_slope": at_least(0)},
    )
    clamp6 = "minimum(maximum(self + C(3), C(0)), C(6))"
    bounds = {"min_val": "low", "max_val": "high"}
    elu_scalars = "alpha scale input_scale"
    return [
        _forward("gelu", f"self * {erf_gate}", requires=exact),
        _forward("gelu", f"C(0.5) * self * (C(1) + tanh{inner})", requires=approximate),
        _backward(
            "gelu",
            f"grad * ({erf_gate} + self * C(0.3989422804014327) * exp(C(-0.5) * self * self))",
            requires=exact,
        ),
        _backward(
            "gelu",
            f"grad * (C(0.5) * (C(1) + tanh{inner}) + C(0.5) * self * (C(1) - square(tanh{inner}))"
            " * C(0.7978845608028654) * (C(1) + C(0.134145) * self * self))",
            requires=approximate,
        ),
        _forward("silu", "truediv(self, C(1) + exp(-self))"),
        pointwise(
            forms("silu"), "self", "truediv(self, (T)(1, 0) + exp(-self))", COMPLEX,
            same_output=True,
        ),
        _backward("silu", "grad * sigmoid(self) * (C(1) + self * (C(1) - sigmoid(self)))"),
        _forward("mish", "self * tanh(log1p(exp(self)))"),
        pointwise(
            "mish_backward", GRAD,
            "grad * (tanh(log1p(exp(self))) + self * sigmoid(self)"
            " * (C(1) - square(tanh(log1p(exp(self))))))",
            FLOATS, requires={"self": of_dtype_of("grad_output")},
        ),
        pointwise(
            "softplus softplus.out", "self", f"{softplus} ? self : log1p(exp(self * beta)) / beta",
            FLOATS, scalars="beta threshold", same_output=True,
        ),
        _backward(
            "softplus", f"{softplus} ? grad : grad * exp(self * beta) / (exp(self * beta) + C(1))",
            "beta threshold",
        ),
        _forward(
            "elu", "(self < C(0)) ? expm1(self * input_scale) * (alpha * scale) : self * scale",
            elu_scalars,
        ),
        _backward(
            "elu",
            "(result > C(0)) ? grad * scale : grad * input_scale * (result + alpha * scale)",
            elu_scalars, {"is_result": True, "alpha": at_least(0)},
            {"grad_output": "grad", "self_or_result": "result"},
        ),
        _backward(
            "elu",
            "(self > C(0)) ? grad * scale"
            " : grad * input_scale * (alpha * scale) * exp(self * input_scale)",
            elu_scalars, {"is_result": False}, {"grad_output": "grad", "self_or_result": "self"},
        ),
        _forward("hardtanh", "minimum(maximum(self, low), high)", bounds),
        _backward("hardtanh", "((self > low) & (self < high)) ? grad : C(0)", bounds),
        _forward("hardsigmoid", f"{clamp6} / C(6)"),
        _backward("hardsigmoid", "((self > C(-3)) & (self < C(3))) ? grad / C(6) : C(0)"),
        _forward("hardswish", f"self * {clamp6} / C(6)"),
        pointwise(
            "hardswish_backward", GRAD,
            "(self <= C(-3)) ? C(0) : ((self >= C(3)) ? grad : grad * (self / C(3) + C(0.5)))",
            FLOATS,
        ),
        pointwise(
            "hardshrink hardshrink.out", "self",
            "((self >= -lambd) & (self <= lambd)) ? C(0) : self", FLOATS, scalars="lambd",
            same_output=True,
        ),
        _backward(
            "hardshrink", "((self > lambd) | (self < -lambd)) ? grad : C(0)", "lambd",
            operands={"grad_out": "grad", "self": "self"},
        ),
        pointwise(
            "softshrink softshrink.out", "self",
            "(self > lambd) ? self - lambd : ((self < -lambd) ? self + lambd : self * C(0))",
            FLOATS, scalars="lambd", meta="aten::softshrink", same_output=True,
        ),
        _backward("softshrink", "((self > lambd) | (self < -lambd)) ? grad : C(0)", "lambd"),
        pointwise(
            forms("leaky_relu"), "self", "(self > C(0)) ? self : self * negative_slope", FLOATS,
            scalars="negative_slope", same_output=True,
        ),
        *(
            _backward(
                "leaky_relu", "(self > C(0)) ? grad : grad * negative_slope", "negative_slope",
                requires, {"self": "self", "grad_output": "grad"},
            )
            for requires in sign_of_argument
        ),
        pointwise(
            forms("threshold"), "self", "(self <= threshold) ? value : self", FLOATS,
            scalars="threshold value",
        ),
        _backward("threshold", "(self <= threshold) ? C(0) : grad", "threshold"),
        pointwise(
            "_prelu_kernel", "self weight", "(self > C(0)) ? self : weight * self", FLOATS,
            types="same",
        ),
        pointwise(
            "_prelu_kernel_backward", {**GRAD, "weight": "weight"},
            ["(self > C(0)) ? grad : weight * grad", "(self > C(0)) ? C(0) : self * grad"], FLOATS,
            types="same",
        ),
        _backward("sigmoid", "grad * (C(1) - y) * y", operands=GRAD_OF_RESULT),
        pointwise(
            "sigmoid_backward sigmoid_backward.grad_input", GRAD_OF_RESULT,
            "mul(grad, conj(mul((T)(1, 0) - y, y)))", COMPLEX,
        ),
        _backward("tanh", "grad * (C(1) - y * y)", operands=GRAD_OF_RESULT),
        pointwise(
            "tanh_backward tanh_backward.grad_input", GRAD_OF_RESULT,
            "mul(grad, conj((T)(1, 0) - mul(y, y)))", COMPLEX,
        ),
        pointwise(
            "log_sigmoid_forward log_sigmoid_forward.output", "self",
            ["minimum(self, C(0)) - log1p(exp(-fabs(self)))", "exp(-fabs(self))"], FLOATS,
            resizes_silently=True, same_output=True,
        ),
        _backward(
            "log_sigmoid",
            "grad * ((self < C(0)) ? C(1) - buffer / (C(1) + buffer) : buffer / (C(1) + buffer))",
            operands={**GRAD, "buffer": "buffer"}, types="same", same_output=True,
        ),
        _backward(
            "logit",
            "((self < C(0)) | (self > C(1))) ? C(NAN) : grad / (self * (C(1) - self))",
            requires={"eps": None},
        ),
        _backward(
            "logit", "((self < eps) | (self > C(1) - eps)) ? C(0) : grad / (self * (C(1) - self))",
            "eps",
        ),
    ]  # fmt: skip
