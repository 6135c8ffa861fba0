"""Operators over lists of tensors: operator definitions of the kernel generator `pointwise`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torch_outboard.ops.definition import BOOL, COMPLEX, FLOATS, Definition
from torch_outboard.ops.expression import ALL, REALS, pointwise, with_alpha
from torch_outboard.ops.requirements import not_of_dtype, of_dtype_of

_FRACTIONS = (*FLOATS, *COMPLEX)

_FLOAT_FUNCTIONS = (
    "exp log log2 log10 sqrt rsqrt sin cos sinh cosh tan tanh sigmoid reciprocal", _FRACTIONS,
)  # fmt: skip
_REAL_FUNCTIONS = ("expm1 log1p erf erfc lgamma asin acos atan", FLOATS)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""

    def forms(name: str, *overloads: str) -> str:
        base = f"_foreach_{name}"
        if not overloads:
            return f"{base} {base}_"
        return " ".join(f"{base}.{o} {base}_.{o}" for o in overloads)

    result: list[Definition] = []
    for names, dtypes in (_FLOAT_FUNCTIONS, _REAL_FUNCTIONS):
        for name in names.split():
            result.append(pointwise(forms(name), "self", f"{name}(self)", dtypes, types="float"))
    for name, function, types in (
        ("neg", "neg", (*REALS, *COMPLEX)), ("abs", "abs", REALS),
        ("sign", "sign", (*REALS, *BOOL)),
        ("floor", "floor", REALS), ("ceil", "ceil", REALS), ("trunc", "trunc", REALS),
        ("round", "round", REALS), ("frac", "frac", FLOATS),
    ):  # fmt: skip
        result.append(pointwise(forms(name), "self", f"{function}(self)", types))
    result.append(pointwise("_foreach_zero_", "self", "C(0)", ALL, types="self", any_output=True))
    result += _binary(forms)
    result += _ternary(forms)
    return result


def _binary(forms: Callable[..., str]) -> list[Definition]:
    result = []
    kinds = (("List", "other"), ("Scalar", "scalar"), ("ScalarList", "scalars"))
    for kind, other in kinds:
        operands = {"self": "self", other: "other"}
        result += [
            with_alpha(forms("add", kind), operands, "add(self, mul(alpha, other))", ALL),
            with_alpha(
                forms("sub", kind),
                operands,
                "sub(self, mul(alpha, other))",
                (*REALS, *COMPLEX),
                dict.fromkeys(("self", other), not_of_dtype(torch.bool)),
            ),
            pointwise(forms("mul", kind), operands, "mul(self, other)", ALL),
            pointwise(
                forms("div", kind), operands, "truediv(self, other)", _FRACTIONS, types="float"
            ),
        ]
        for name, function in (
            ("clamp_min", "maximum"), ("clamp_max", "minimum"),
            ("maximum", "maximum"), ("minimum", "minimum"),
        ):  # fmt: skip
            result.append(pointwise(forms(name, kind), operands, f"{function}(self, other)", REALS))
    for kind, other in (("List", "exponent"), ("Scalar", "exponent"), ("ScalarList", "exponent")):
        result.append(pointwise(forms("pow", kind), f"self {other}", "pow(self, exponent)", FLOATS))
    result += [
        with_alpha(forms("add", "Tensor"), "self other", "add(self, mul(alpha, other))", ALL),
        pointwise(forms("mul", "Tensor"), "self other", "mul(self, other)", ALL),
        pointwise(
            forms("div", "Tensor"), "self other", "truediv(self, other)", _FRACTIONS, types="float"
        ),
    ]
    return result


def _ternary(forms: Callable[..., str]) -> list[Definition]:
    result = []
    for kind, scalar in (("Scalar", "value"), ("ScalarList", "scalars")):
        for name, function, dtypes in (
            ("addcmul", "mul", (*REALS, *COMPLEX)),
            ("addcdiv", "truediv", _FRACTIONS),
        ):
            result.append(
                pointwise(
                    forms(name, kind),
                    "self tensor1 tensor2",
                    f"add(self, {function}(mul(value, tensor1), tensor2))",
                    dtypes,
                    scalars={scalar: "value"},
                    strict=True,
                )
            )
    lerp = (
        "((fabs(weight) < C(0.5)) ? self + weight * (end - self)"
        " : end - (end - self) * (C(1) - weight))"
    )
    result += [
        pointwise(
            forms("lerp", "List"),
            {"self": "self", "tensors1": "end", "weights": "weight"},
            lerp,
            FLOATS,
            requires={"tensors1": of_dtype_of("self"), "weights": of_dtype_of("self")},
        ),
        pointwise(
            forms("lerp", "Scalar"),
            {"self": "self", "tensors1": "end"},
            lerp,
            FLOATS,
            scalars="weight",
            requires={"tensors1": of_dtype_of("self")},
        ),
    ]
    return result
