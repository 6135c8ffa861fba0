"""Activations and their derivatives: operator definitions of the kind `pointwise`."""

from __future__ import annotations

from torch_outboard.ops.definition import COMPLEX, FLOATS, Definition
from torch_outboard.ops.expression import pointwise
from torch_outboard.ops.requirements import Requirement, at_least, of_dtype_of


def definitions() -> list[Definition]:
    """Every operator definition of this module."""

    def forms(name: str, backward: bool = False) -> str:
        return f"{name} {name}.grad_input" if backward else f"{name} {name}_ {name}.out"

    erf_gate = "C(0.5) * (C(1) + erf(self * C(0.70710678118654752440)))"
    inner = "(C(0.7978845608028654) * (self + C(0.044715) * self * self * self))"
    exact = {"approximate": "none"}
    approximate = {"approximate": "tanh"}
    softplus = "(self * beta > threshold)"
    # The result has the sign of the argument if the slope is not negative.
    sign_of_argument: tuple[dict[str, Requirement], ...] = (
        {"self_is_result": False},
        {"self_is_result": True, "negative_slope": at_least(0)},
    )
    clamp6 = "minimum(maximum(self + C(3), C(0)), C(6))"
    return [
        pointwise(
            forms("gelu"), "self", f"self * {erf_gate}", FLOATS, same_output=True, requires=exact
        ),
        pointwise(
            forms("gelu"), "self", f"C(0.5) * self * (C(1) + tanh{inner})", FLOATS,
            same_output=True, requires=approximate,
        ),
        pointwise(
            forms("gelu_backward", True), {"grad_output": "grad", "self": "self"},
            f"grad * ({erf_gate} + self * C(0.3989422804014327) * exp(C(-0.5) * self * self))",
            FLOATS, requires=exact,
        ),
        pointwise(
            forms("gelu_backward", True), {"grad_output": "grad", "self": "self"},
            f"grad * (C(0.5) * (C(1) + tanh{inner}) + C(0.5) * self * (C(1) - square(tanh{inner}))"
            " * C(0.7978845608028654) * (C(1) + C(0.134145) * self * self))",
            FLOATS, requires=approximate,
        ),
        pointwise(
            forms("silu"), "self", "truediv(self, C(1) + exp(-self))", FLOATS, same_output=True
        ),
        pointwise(
            forms("silu"), "self", "truediv(self, (T)(1, 0) + exp(-self))", COMPLEX,
            same_output=True,
        ),
        pointwise(
            forms("silu_backward", True), {"grad_output": "grad", "self": "self"},
            "grad * sigmoid(self) * (C(1) + self * (C(1) - sigmoid(self)))", FLOATS,
        ),
        pointwise(
            forms("mish"), "self", "self * tanh(log1p(exp(self)))", FLOATS, same_output=True
        ),
        pointwise(
            "mish_backward", {"grad_output": "grad", "self": "self"},
            "grad * (tanh(log1p(exp(self))) + self * sigmoid(self)"
            " * (C(1) - square(tanh(log1p(exp(self))))))",
            FLOATS, requires={"self": of_dtype_of("grad_output")},
        ),
        pointwise(
            "softplus softplus.out", "self", f"{softplus} ? self : log1p(exp(self * beta)) / beta",
            FLOATS, scalars="beta threshold", same_output=True,
        ),
        pointwise(
            forms("softplus_backward", True), {"grad_output": "grad", "self": "self"},
            f"{softplus} ? grad : grad * exp(self * beta) / (exp(self * beta) + C(1))",
            FLOATS, scalars="beta threshold",
        ),
        pointwise(
            forms("elu"), "self",
            "(self < C(0)) ? expm1(self * input_scale) * (alpha * scale) : self * scale",
            FLOATS, scalars="alpha scale input_scale", same_output=True,
        ),
        pointwise(
            forms("elu_backward", True), {"grad_output": "grad", "self_or_result": "result"},
            "(result > C(0)) ? grad * scale : grad * input_scale * (result + alpha * scale)",
            FLOATS, scalars="alpha scale input_scale",
            requires={"is_result": True, "alpha": at_least(0)},
        ),
        pointwise(
            forms("elu_backward", True), {"grad_output": "grad", "self_or_result": "self"},
            "(self > C(0)) ? grad * scale"
            " : grad * input_scale * (alpha * scale) * exp(self * input_scale)",
            FLOATS, scalars="alpha scale input_scale", requires={"is_result": False},
        ),
        pointwise(
            forms("hardtanh"), "self", "minimum(maximum(self, low), high)", FLOATS,
            scalars={"min_val": "low", "max_val": "high"}, same_output=True,
        ),
        pointwise(
            forms("hardtanh_backward", True), {"grad_output": "grad", "self": "self"},
            "((self > low) & (self < high)) ? grad : C(0)", FLOATS,
            scalars={"min_val": "low", "max_val": "high"},
        ),
        pointwise(forms("hardsigmoid"), "self", f"{clamp6} / C(6)", FLOATS, same_output=True),
        pointwise(
            forms("hardsigmoid_backward", True), {"grad_output": "grad", "self": "self"},
            "((self > C(-3)) & (self < C(3))) ? grad / C(6) : C(0)", FLOATS,
        ),
        pointwise(
            forms("hardswish"), "self", f"self * {clamp6} / C(6)", FLOATS, same_output=True
        ),
        pointwise(
            "hardswish_backward", {"grad_output": "grad", "self": "self"},
            "(self <= C(-3)) ? C(0) : ((self >= C(3)) ? grad : grad * (self / C(3) + C(0.5)))",
            FLOATS,
        ),
        pointwise(
            "hardshrink hardshrink.out", "self",
            "((self >= -lambd) & (self <= lambd)) ? C(0) : self", FLOATS, scalars="lambd",
            same_output=True,
        ),
        pointwise(
            forms("hardshrink_backward", True), {"grad_out": "grad", "self": "self"},
            "((self > lambd) | (self < -lambd)) ? grad : C(0)", FLOATS, scalars="lambd",
        ),
        pointwise(
            "softshrink softshrink.out", "self",
            "(self > lambd) ? self - lambd : ((self < -lambd) ? self + lambd : self * C(0))",
            FLOATS, scalars="lambd", meta="aten::softshrink", same_output=True,
        ),
        pointwise(
            forms("softshrink_backward", True), {"grad_output": "grad", "self": "self"},
            "((self > lambd) | (self < -lambd)) ? grad : C(0)", FLOATS, scalars="lambd",
        ),
        pointwise(
            forms("leaky_relu"), "self", "(self > C(0)) ? self : self * negative_slope", FLOATS,
            scalars="negative_slope", same_output=True,
        ),
        *(
            pointwise(
                forms("leaky_relu_backward", True), {"self": "self", "grad_output": "grad"},
                "(self > C(0)) ? grad : grad * negative_slope", FLOATS, scalars="negative_slope",
                requires=requires,
            )
            for requires in sign_of_argument
        ),
        pointwise(
            forms("threshold"), "self", "(self <= threshold) ? value : self", FLOATS,
            scalars="threshold value",
        ),
        pointwise(
            forms("threshold_backward", True), {"grad_output": "grad", "self": "self"},
            "(self <= threshold) ? C(0) : grad", FLOATS, scalars="threshold",
        ),
        pointwise(
            "_prelu_kernel", "self weight", "(self > C(0)) ? self : weight * self", FLOATS,
            types="same",
        ),
        pointwise(
            "_prelu_kernel_backward", {"grad_output": "grad", "self": "self", "weight": "weight"},
            ["(self > C(0)) ? grad : weight * grad", "(self > C(0)) ? C(0) : self * grad"], FLOATS,
            types="same",
        ),
        pointwise(
            forms("sigmoid_backward", True), {"grad_output": "grad", "output": "y"},
            "grad * (C(1) - y) * y", FLOATS,
        ),
        pointwise(
            forms("sigmoid_backward", True), {"grad_output": "grad", "output": "y"},
            "mul(grad, conj(mul((T)(1, 0) - y, y)))", COMPLEX,
        ),
        pointwise(
            forms("tanh_backward", True), {"grad_output": "grad", "output": "y"},
            "grad * (C(1) - y * y)", FLOATS,
        ),
        pointwise(
            "log_sigmoid_forward log_sigmoid_forward.output", "self",
            ["minimum(self, C(0)) - log1p(exp(-fabs(self)))", "exp(-fabs(self))"], FLOATS,
            resizes_silently=True, same_output=True,
        ),
        pointwise(
            forms("log_sigmoid_backward", True),
            {"grad_output": "grad", "self": "self", "buffer": "buffer"},
            "grad * ((self < C(0)) ? C(1) - buffer / (C(1) + buffer) : buffer / (C(1) + buffer))",
            FLOATS, types="same", same_output=True,
        ),
        pointwise(
            forms("logit_backward", True), {"grad_output": "grad", "self": "self"},
            "((self < C(0)) | (self > C(1))) ? C(NAN) : grad / (self * (C(1) - self))", FLOATS,
            requires={"eps": None},
        ),
        pointwise(
            forms("logit_backward", True), {"grad_output": "grad", "self": "self"},
            "((self < eps) | (self > C(1) - eps)) ? C(0) : grad / (self * (C(1) - self))", FLOATS,
            scalars="eps",
        ),
    ]  # fmt: skip
