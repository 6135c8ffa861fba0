"""Operators over lists of tensors: operator definitions of the kernel generator `pointwise`."""

from __future__ import annotations

import torch

from torch_outboard.ops.definition import BOOL, COMPLEX, FLOATS, Definition
from torch_outboard.ops.expression import ALL, LERP, REALS, calls, pointwise, with_alpha
from torch_outboard.ops.requirements import not_of_dtype, of_dtype_of

_FRACTIONS = (*FLOATS, *COMPLEX)

_NUMBERS = (*REALS, *COMPLEX)


def _forms(name: str, *overloads: str) -> str:
    base = f"_foreach_{name}"
    if not overloads:
        return f"{base} {base}_"
    return " ".join(f"{base}.{o} {base}_.{o}" for o in overloads)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    forms = "_foreach_{} _foreach_{}_"
    fractions = "exp log log2 log10 sqrt rsqrt sin cos sinh cosh tan tanh sigmoid reciprocal"
    reals = "expm1 log1p erf erfc lgamma asin acos atan"
    return [
        *calls(forms, fractions, "self", _FRACTIONS, types="float"),
        *calls(forms, reals, "self", FLOATS, types="float"),
        *calls(forms, "neg", "self", _NUMBERS),
        *calls(forms, "abs floor ceil trunc round", "self", REALS),
        *calls(forms, "sign", "self", (*REALS, *BOOL)),
        *calls(forms, "frac", "self", FLOATS),
        pointwise("_foreach_zero_", "self", "C(0)", ALL, types="self", any_output=True),
        *_binary(),
        *_ternary(),
    ]


def _binary() -> list[Definition]:
    result = []
    for kind, other in (("List", "other"), ("Scalar", "scalar"), ("ScalarList", "scalars")):
        operands = {"self": "self", other: "other"}
        no_bool = dict.fromkeys(operands, not_of_dtype(torch.bool))
        result += [
            with_alpha(_forms("sub", kind), operands, "sub", _NUMBERS, no_bool),
            *_sums_and_quotients(kind, operands),
        ]
        for name, function in (
            ("clamp_min", "maximum"), ("clamp_max", "minimum"),
            ("maximum", "maximum"), ("minimum", "minimum"),
        ):  # fmt: skip
            expression = f"{function}(self, other)"
            result.append(pointwise(_forms(name, kind), operands, expression, REALS))
        forms = _forms("pow", kind)
        result.append(pointwise(forms, "self exponent", "pow(self, exponent)", FLOATS))
    return [*result, *_sums_and_quotients("Tensor", {"self": "self", "other": "other"})]


def _sums_and_quotients(kind: str, operands: dict[str, str]) -> list[Definition]:
    return [
        with_alpha(_forms("add", kind), operands, "add", ALL),
        pointwise(_forms("mul", kind), operands, "mul(self, other)", ALL),
        pointwise(_forms("div", kind), operands, "truediv(self, other)", _FRACTIONS, types="float"),
    ]


def _ternary() -> list[Definition]:
    same = of_dtype_of("self")
    return [
        *(
            pointwise(
                _forms(name, kind),
                "self tensor1 tensor2",
                f"add(self, {function}(mul(value, tensor1), tensor2))",
                dtypes,
                scalars={scalar: "value"},
                strict=True,
            )
            for kind, scalar in (("Scalar", "value"), ("ScalarList", "scalars"))
            for name, function, dtypes in (
                ("addcmul", "mul", _NUMBERS),
                ("addcdiv", "truediv", _FRACTIONS),
            )
        ),
        pointwise(
            _forms("lerp", "List"),
            {"self": "self", "tensors1": "end", "weights": "weight"},
            LERP,
            FLOATS,
            requires={"tensors1": same, "weights": same},
        ),
        pointwise(
            _forms("lerp", "Scalar"),
            {"self": "self", "tensors1": "end"},
            LERP,
            FLOATS,
            scalars="weight",
            requires={"tensors1": same},
        ),
    ]
