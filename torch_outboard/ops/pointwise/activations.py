"""Activations, gated linear units, and their derivatives."""

from typing import Any

from torch_outboard.ops.definition import COMPLEX, FLOATS, Definition
from torch_outboard.ops.expression import FORMS, Names, pointwise
from torch_outboard.ops.symbolic import SymInt, SymInts, SymTensor, given, same_dtype, wrap
from torch_outboard.ops.template import Plan, template

GRAD = {"grad_output": "grad", "self": "self"}
GRAD_OF_RESULT = {"grad_output": "grad", "output": "y"}


def _forms(name: str) -> str:
    return FORMS.replace("{}", name)


def _forward(name: str, expression: str, scalars: Names = "", **fields: Any) -> Definition:
    """An activation of real numbers; results have the dtype of `self`."""
    return pointwise(
        _forms(name), "self", expression, FLOATS, scalars=scalars, same_output=True, **fields
    )


def _backward(
    name: str,
    expression: str,
    scalars: Names = "",
    operands: Names = GRAD,
    **fields: Any,
) -> Definition:
    """The derivative of an activation of real numbers."""
    return pointwise(
        f"{name}_backward {name}_backward.grad_input", operands, expression, FLOATS,
        scalars=scalars, **fields,
    )  # fmt: skip


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *_smooth(),
        *_piecewise(),
        *_logistic(),
        _glu,
        _glu_backward,
        _glu_jvp,
        _glu_backward_jvp,
    ]


def _smooth() -> list[Definition]:
    """Activations made of exponential functions, and their derivatives."""
    erf_gate = "C(0.5) * (C(1) + erf(self * C(0.70710678118654752440)))"
    inner = "(C(0.7978845608028654) * (self + C(0.044715) * self * self * self))"
    exact: dict[str, Any] = {"condition": lambda approximate: approximate == "none"}
    approximated: dict[str, Any] = {"condition": lambda approximate: approximate == "tanh"}
    softplus = "(self * beta > threshold)"
    elu_scalars = "alpha scale input_scale"
    return [
        _forward("gelu", f"self * {erf_gate}", **exact),
        _forward("gelu", f"C(0.5) * self * (C(1) + tanh{inner})", **approximated),
        _backward(
            "gelu",
            f"grad * ({erf_gate} + self * C(0.3989422804014327) * exp(C(-0.5) * self * self))",
            **exact,
        ),
        _backward(
            "gelu",
            f"grad * (C(0.5) * (C(1) + tanh{inner}) + C(0.5) * self * (C(1) - square(tanh{inner}))"
            " * C(0.7978845608028654) * (C(1) + C(0.134145) * self * self))",
            **approximated,
        ),
        _forward("silu", "truediv(self, C(1) + exp(-self))"),
        pointwise(
            _forms("silu"), "self", "truediv(self, (T)(1, 0) + exp(-self))", COMPLEX,
            same_output=True,
        ),
        _backward("silu", "grad * sigmoid(self) * (C(1) + self * (C(1) - sigmoid(self)))"),
        _forward("mish", "self * tanh(log1p(exp(self)))"),
        pointwise(
            "mish_backward", GRAD,
            "grad * (tanh(log1p(exp(self))) + self * sigmoid(self)"
            " * (C(1) - square(tanh(log1p(exp(self))))))",
            FLOATS, condition=lambda grad_output, self: same_dtype(self, grad_output),
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
            elu_scalars, {"grad_output": "grad", "self_or_result": "result"},
            condition=lambda is_result, alpha: is_result & (alpha >= 0),
        ),
        _backward(
            "elu",
            "(self > C(0)) ? grad * scale"
            " : grad * input_scale * (alpha * scale) * exp(self * input_scale)",
            elu_scalars, {"grad_output": "grad", "self_or_result": "self"},
            condition=lambda is_result: ~is_result,
        ),
    ]  # fmt: skip


def _piecewise() -> list[Definition]:
    """Activations that are linear between bounds, and their derivatives."""
    clamp6 = "minimum(maximum(self + C(3), C(0)), C(6))"
    bounds = {"min_val": "low", "max_val": "high"}
    return [
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
            FLOATS, scalars="lambd", same_output=True,
            # CPU refuses what the dtype cannot hold; the greatest float16 is 65504.
            condition=lambda lambd: (lambd >= 0) & (lambd <= 65504),
        ),
        _backward("softshrink", "((self > lambd) | (self < -lambd)) ? grad : C(0)", "lambd"),
        pointwise(
            _forms("leaky_relu"), "self", "(self > C(0)) ? self : self * negative_slope", FLOATS,
            scalars="negative_slope", same_output=True,
        ),
        _backward(
            "leaky_relu", "(self > C(0)) ? grad : grad * negative_slope", "negative_slope",
            {"self": "self", "grad_output": "grad"},
            # The result has the sign of the argument if the slope is not negative.
            condition=lambda self_is_result, negative_slope: (
                ~self_is_result | (negative_slope >= 0)
            ),
        ),
        pointwise(
            _forms("threshold"), "self", "(self <= threshold) ? value : self", FLOATS,
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
    ]  # fmt: skip


def _logistic() -> list[Definition]:
    """Derivatives of the logistic function and its relatives, and the logarithm of it."""
    return [
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
            condition=lambda eps: ~given(eps),
        ),
        _backward(
            "logit", "((self < eps) | (self > C(1) - eps)) ? C(0) : grad / (self * (C(1) - self))",
            "eps",
        ),
    ]  # fmt: skip


# ---- Gated linear units
#
# Along a dimension the first half of the elements, a, is multiplied by the logistic function of the
# second half, b.


# A work-item per pair of elements.
def _glu_kernel(x: str, body: str) -> str:
    return f"""
        __kernel void glu(OB_PARAMETERS) {{
          OB_BEGIN
          OB_ITEM(i)
          const ob_index first = i + (i / half_size) * half_size, second = first + half_size;
          const V gate = 1 / (1 + exp(-{x}_load(second)));
          {body}
        }}
    """


def _halve(plan: Plan, x: SymTensor, dim: SymInt) -> SymInts:
    """Requires two halves along a dimension, and returns the shape of a half."""
    d = wrap(dim, x.dim())
    size = x.size(d)
    plan.require(x.dim() > 0, size % 2 == 0)
    plan.parameters(half_size=size // 2 * x.shape[d + 1 :].prod())
    return x.shape.replace(d, size // 2)


@template(
    "glu glu.out",
    source=_glu_kernel("self", "out_store(i, self_load(first) * gate);"),
    dtypes=FLOATS,
)
def _glu(plan: Plan, self: SymTensor, dim: SymInt) -> None:
    _halve(plan, self, dim)
    plan.launch("glu", plan.result("out").numel())


_BACKWARD = """
    const V grad = grad_output_load(i) * gate;
    grad_input_store(first, grad);
    grad_input_store(second, grad * (1 - gate) * self_load(first));
"""


@template(
    "glu_backward glu_backward.grad_input", source=_glu_kernel("self", _BACKWARD), dtypes=FLOATS
)
def _glu_backward(plan: Plan, self: SymTensor, grad_output: SymTensor, dim: SymInt) -> None:
    plan.require(grad_output.shape == _halve(plan, self, dim))
    plan.result("grad_input", self.shape)
    plan.launch("glu", grad_output.numel())


_JVP = "out_store(i, dx_load(first) * gate + glu_load(i) * (1 - gate) * dx_load(second));"


@template("glu_jvp glu_jvp.out", source=_glu_kernel("x", _JVP), dtypes=FLOATS)
def _glu_jvp(plan: Plan, glu: SymTensor, x: SymTensor, dx: SymTensor, dim: SymInt) -> None:
    plan.require(glu.shape == _halve(plan, x, dim), dx.shape == x.shape)
    plan.result("out", like=glu)
    plan.launch("glu", glu.numel())


# The forward-mode derivative of the backward pass, for both halves.
_BACKWARD_JVP = """
    const V slope = gate * (1 - gate);
    const V a = x_load(first), da = dx_load(first), db = dx_load(second);
    const V grad = grad_x_load(first);
    const V dgrad = dgrad_glu_load(i) * gate + grad * (1 - gate) * db;
    out_store(first, dgrad);
    out_store(second, (dgrad * a + grad * da) * (1 - gate) - grad * a * slope * db);
"""


@template(
    "glu_backward_jvp glu_backward_jvp.out",
    source=_glu_kernel("x", _BACKWARD_JVP),
    dtypes=FLOATS,
    shapes_only=("grad_glu",),
)
def _glu_backward_jvp(
    plan: Plan,
    x: SymTensor,
    grad_x: SymTensor,
    dx: SymTensor,
    dgrad_glu: SymTensor,
    grad_glu: SymTensor,
    dim: SymInt,
) -> None:
    plan.require(
        grad_glu.shape == _halve(plan, x, dim),
        dgrad_glu.shape == grad_glu.shape,
        (grad_x.shape == x.shape) & (dx.shape == x.shape),
    )
    plan.result("out", x.shape)
    plan.launch("glu", dgrad_glu.numel())
