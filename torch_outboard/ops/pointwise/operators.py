"""Pointwise operators: operator definitions of the kind `pointwise`.

Arithmetic, comparison and elementary functions; activations are in activations.py,
operators over lists in foreach.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import BOOL, COMPLEX, FLOATS, INTEGERS, Definition
from torch_outboard.ops.expression import ALL, REALS, binary, pointwise, unary, with_alpha
from torch_outboard.ops.pointwise import activations, foreach
from torch_outboard.ops.requirements import not_of_dtype, of_dtype, of_dtype_of
from torch_outboard.ops.symbolic import SymBool, SymTensor


def arithmetic() -> list[Definition]:
    no_bool = dict.fromkeys(("self", "other"), not_of_dtype(torch.bool))
    division = "div{0}.Tensor_mode div{1}.Tensor_mode div{0}.out_mode"
    modes = division.format("", "_")
    fractions = (*FLOATS, *COMPLEX)
    return [
        with_alpha(
            "add.Tensor add_.Tensor add.out", "self other", "add(self, mul(alpha, other))", ALL
        ),
        with_alpha(
            "sub.Tensor sub_.Tensor sub.out",
            "self other",
            "sub(self, mul(alpha, other))",
            (*REALS, *COMPLEX),
            no_bool,
        ),
        with_alpha(
            "rsub.Tensor",
            "other self",
            "sub(other, mul(alpha, self))",
            (*REALS, *COMPLEX),
            no_bool,
        ),
        *binary("mul", ALL),
        *binary({"div": "truediv"}, (*FLOATS, *COMPLEX), types="float"),
        pointwise(
            modes,
            "self other",
            "truediv(self, other)",
            (*FLOATS, *COMPLEX),
            types="float",
            requires={"rounding_mode": None},
        ),
        pointwise(
            modes,
            "self other",
            "truncdiv(self, other)",
            REALS,
            requires={"rounding_mode": "trunc"},
            divisor="other",
        ),
        pointwise(
            modes,
            "self other",
            "floordiv(self, other)",
            REALS,
            requires={"rounding_mode": "floor"},
            divisor="other",
        ),
        pointwise(
            "floor_divide floor_divide_.Tensor floor_divide.out",
            "self other",
            "floordiv(self, other)",
            REALS,
            divisor="other",
        ),
        *binary("remainder fmod", REALS, "Tensor_out", divisor="other"),
        pointwise(
            "remainder.Scalar_Tensor",
            "self other",
            "remainder(self, other)",
            REALS,
            divisor="other",
        ),
        *_powers(),
        pointwise("maximum maximum.out", "self other", "maximum(self, other)", (*REALS, *BOOL)),
        pointwise("minimum minimum.out", "self other", "minimum(self, other)", (*REALS, *BOOL)),
        pointwise("fmax fmax.out", "self other", "fmax(self, other)", (*REALS, *BOOL)),
        pointwise("fmin fmin.out", "self other", "fmin(self, other)", (*REALS, *BOOL)),
        *binary("copysign", FLOATS, types="float"),
        pointwise(
            "atan2 atan2_ atan2.out", "self other", "atan2(self, other)", FLOATS, types="float"
        ),
        pointwise("hypot hypot_ hypot.out", "self other", "hypot(self, other)", FLOATS),
        pointwise(
            "nextafter nextafter_ nextafter.out",
            "self other",
            "nextafter(self, other)",
            (torch.float32, torch.float64),
        ),
        pointwise("logaddexp logaddexp.out", "self other", "logaddexp(self, other)", fractions),
        pointwise("logaddexp2 logaddexp2.out", "self other", "logaddexp2(self, other)", FLOATS),
        pointwise(
            "xlogy.Tensor xlogy_.Tensor xlogy.OutTensor",
            "self other",
            "xlogy(self, other)",
            FLOATS,
            types="float",
        ),
        pointwise(
            "special_xlog1py special_xlog1py.out",
            "self other",
            "xlog1py(self, other)",
            FLOATS,
            types="float",
        ),
        pointwise(
            "heaviside heaviside_ heaviside.out",
            "self values",
            "(self == C(0)) ? values : ((self > C(0)) ? C(1) : C(0))",
            (*REALS, *BOOL),
            requires={"values": of_dtype_of("self")},
            same_output=True,
        ),
        *_ternary(),
    ]


def _powers() -> list[Definition]:
    numbers = (*REALS, *COMPLEX)
    names = "pow.Tensor_Scalar pow_.Scalar pow.Tensor_Scalar_out"
    floats = (*FLOATS, *COMPLEX)
    special = {
        2: ("mul(self, self)", numbers),
        3: ("mul(mul(self, self), self)", numbers),
        1: ("self", numbers),
        0: ("(T)(1, 0)", COMPLEX),
        0.5: ("sqrt(self)", floats),
        -0.5: ("rsqrt(self)", floats),
        -1: ("reciprocal(self)", floats),
        -2: ("reciprocal(mul(self, self))", floats),
    }
    rows = [
        pointwise(names, "self exponent", expression, dtypes, requires={"exponent": value})
        for value, (expression, dtypes) in special.items()
    ]
    return [
        *rows,
        # CPU raises for integers to negative powers.
        pointwise(names, "self exponent", "pow(self, exponent)", floats),
        pointwise(
            "pow.Tensor_Tensor pow_.Tensor pow.Tensor_Tensor_out",
            "self exponent",
            "pow(self, exponent)",
            numbers,
        ),
        pointwise("pow.Scalar pow.Scalar_out", "self exponent", "pow(self, exponent)", numbers),
    ]


def _ternary() -> list[Definition]:
    numbers = (*REALS, *COMPLEX)
    fractions = (*FLOATS, *COMPLEX)
    # For zeros minimum and maximum return the second operand, so self keeps its sign.
    clamp = "minimum(high, maximum(low, self))"
    bounds = {"low": "lowest", "high": "highest"}
    return [
        pointwise(
            "addcmul addcmul_ addcmul.out",
            "self tensor1 tensor2",
            "add(self, mul(mul(value, tensor1), tensor2))",
            numbers,
            scalars="value",
            strict=True,
        ),
        pointwise(
            "addcdiv addcdiv_ addcdiv.out",
            "self tensor1 tensor2",
            "add(self, truediv(mul(value, tensor1), tensor2))",
            fractions,
            scalars="value",
        ),
        *(
            pointwise(
                "lerp.Scalar lerp_.Scalar lerp.Scalar_out",
                "self end",
                expression,
                dtypes,
                scalars="weight",
                types="same",
            )
            for expression, dtypes in ((_LERP, FLOATS), (_COMPLEX_LERP, COMPLEX))
        ),
        *(
            pointwise(
                "lerp.Tensor lerp_.Tensor lerp.Tensor_out",
                "self end weight",
                expression,
                dtypes,
                types="same",
                same_output=True,
            )
            for expression, dtypes in ((_LERP, FLOATS), (_COMPLEX_LERP, COMPLEX))
        ),
        pointwise(
            "clamp clamp_ clamp.out",
            "self",
            clamp,
            REALS,
            scalars={"min": "low", "max": "high"},
            promoting=["low", "high"],
            absent=bounds,
            same_output=True,
            some_scalar=True,
        ),
        pointwise(
            "clamp_min clamp_min_ clamp_min.out",
            "self",
            "maximum(low, self)",
            REALS,
            scalars={"min": "low"},
            promoting=["low"],
            same_output=True,
        ),
        pointwise(
            "clamp_max clamp_max_ clamp_max.out",
            "self",
            "minimum(high, self)",
            REALS,
            scalars={"max": "high"},
            promoting=["high"],
            same_output=True,
        ),
        pointwise(
            "clamp.Tensor clamp_.Tensor clamp.Tensor_out",
            {"self": "self", "min": "low", "max": "high"},
            clamp,
            REALS,
        ),
        pointwise(
            "clamp.Tensor clamp_.Tensor clamp.Tensor_out",
            {"self": "self", "min": "low"},
            "maximum(low, self)",
            REALS,
            requires={"max": None},
        ),
        pointwise(
            "clamp.Tensor clamp_.Tensor clamp.Tensor_out",
            {"self": "self", "max": "high"},
            "minimum(high, self)",
            REALS,
            requires={"min": None},
        ),
        pointwise(
            "clamp_min.Tensor clamp_min_.Tensor clamp_min.Tensor_out",
            {"self": "self", "min": "low"},
            "maximum(low, self)",
            REALS,
        ),
        pointwise(
            "clamp_max.Tensor clamp_max_.Tensor clamp_max.Tensor_out",
            {"self": "self", "max": "high"},
            "minimum(high, self)",
            REALS,
        ),
        pointwise(
            "where.self where.self_out",
            "condition self other",
            "where(condition, self, other)",
            ALL,
            masks=["condition"],
            same_output=True,
        ),
    ]


_LERP = (
    "((fabs(weight) < C(0.5)) ? self + weight * (end - self)"
    " : end - (end - self) * (C(1) - weight))"
)
_COMPLEX_LERP = (
    "((weight.x * weight.x + weight.y * weight.y < (S)0.25) ? self + mul(weight, end - self)"
    " : end - mul(end - self, (T)(1, 0) - weight))"
)


def comparison() -> list[Definition]:
    rows = []
    for name, dtypes in (
        ("eq", ALL), ("ne", ALL), *((n, (*REALS, *BOOL)) for n in ("lt", "le", "gt", "ge")),
    ):  # fmt: skip
        overloads = " ".join(
            f"{name}.{kind} {name}_.{kind} {name}.{kind}_out" for kind in ("Tensor", "Scalar")
        )
        rows.append(_flags(overloads, "self other", f"{name}(self, other)", dtypes))
    for name in ("logical_and", "logical_or", "logical_xor"):
        overloads = f"{name} {name}_ {name}.out"
        rows.append(_flags(overloads, "self other", f"{name}(self, other)", ALL))
    overloads = "logical_not logical_not_ logical_not.out"
    rows.append(_flags(overloads, "self", "logical_not(self)", ALL))
    rows.append(_flags("isnan", "self", "isnan(self)", ALL))
    for name in ("isposinf", "isneginf", "signbit"):
        dtypes = (*REALS, *BOOL)
        # CPU raises for outputs of another dtype.
        rows.append(_flags(f"{name} {name}.out", "self", f"{name}(self)", dtypes, same_output=True))
    return rows


def _flags(
    overloads: str,
    operands: str,
    expression: str,
    dtypes: Sequence[torch.dtype],
    *,
    same_output: bool = False,
) -> Definition:
    """An operator whose results are bool, or have the dtype of the given output."""
    return pointwise(
        overloads,
        operands,
        expression,
        dtypes,
        result="mask",
        any_output=True,
        same_output=same_output,
    )


def bitwise() -> list[Definition]:
    whole = (*INTEGERS, *BOOL)
    return [
        *binary("bitwise_and bitwise_or bitwise_xor", whole, "Tensor_out"),
        *unary("bitwise_not", whole, same_output=True),
        *binary("bitwise_left_shift bitwise_right_shift", INTEGERS, "Tensor_out"),
        *(
            pointwise(
                f"{name}.{kind} {inplace}.{kind}",
                "self other",
                f"bitwise_{side}_shift(self, other)",
                INTEGERS,
            )
            for name, inplace, side in (
                ("__lshift__", "__ilshift__", "left"),
                ("__rshift__", "__irshift__", "right"),
            )
            for kind in ("Tensor", "Scalar")
        ),
    ]


def elementary() -> list[Definition]:
    return [
        *unary("exp log log2 log10 sqrt rsqrt sin cos sinh cosh tan tanh sigmoid",
               (*FLOATS, *COMPLEX), types="float"),
        *unary("reciprocal", (*FLOATS, *COMPLEX), types="float"),
        *unary("exp2 expm1 log1p", (*FLOATS, *COMPLEX), types="float"),
        *unary("erf erfc erfinv lgamma digamma", FLOATS, types="float"),
        *unary("asin acos atan asinh acosh atanh", (*FLOATS, *COMPLEX), types="float"),
        *unary("sinc", (*FLOATS, *COMPLEX), types="float"),
        pointwise("special_entr special_entr.out", "self", "entr(self)", FLOATS, types="float"),
        *unary("neg", (*REALS, *COMPLEX), same_output=True),
        *unary({"sgn": "sign"}, ALL, same_output=True),
        *unary("sign", (*REALS, *BOOL), same_output=True),
        *unary("floor ceil trunc round", REALS, same_output=True),
        *unary("frac", FLOATS, same_output=True),
        *unary("relu", REALS, same_output=True),
        *unary("abs", REALS, same_output=True),
        pointwise("abs abs.out", "self", "abs(self)", COMPLEX, result="real"),
        pointwise("angle angle.out", "self", "angle(self)", FLOATS, types="float"),
        pointwise("angle angle.out", "self", "angle(self)", COMPLEX, result="real"),
        pointwise(
            "conj_physical_ conj_physical.out", "self", "conj(self)", ALL, same_output=True
        ),
        pointwise("_conj_physical", "self", "conj(self)", COMPLEX),
        pointwise(
            "complex complex.out", "real imag", "complex(real, imag)",
            (torch.float32, torch.float64), types="complex",
            requires={"imag": of_dtype_of("real")}, same_output=True,
        ),
        pointwise(
            "polar polar.out", {"abs": "length", "angle": "angle"}, "polar(length, angle)",
            (torch.float32, torch.float64), types="complex",
            requires={"angle": of_dtype_of("abs")}, same_output=True,
        ),
        pointwise(
            "deg2rad deg2rad_ deg2rad.out", "self", "self * C(0.017453292519943295)", FLOATS,
            types="float",
        ),
        pointwise(
            "rad2deg rad2deg_ rad2deg.out", "self", "self * C(57.29577951308232)", FLOATS,
            types="float",
        ),
        pointwise(
            "nan_to_num nan_to_num_ nan_to_num.out",
            "self",
            "(self != self) ? for_nan : ((self == C(INFINITY)) ? for_positive"
            " : ((self == C(-INFINITY)) ? for_negative : self))",
            FLOATS,
            scalars={"nan": "for_nan", "posinf": "for_positive", "neginf": "for_negative"},
            absent={"for_nan": "0", "for_positive": "largest", "for_negative": "smallest"},
            same_output=True,
        ),
        pointwise(
            "logit logit_ logit.out", "self", "log(self / (C(1) - self))", FLOATS,
            requires={"eps": None}, types="float",
        ),
        pointwise(
            "logit logit_ logit.out", "self",
            "log(minimum(maximum(self, eps), C(1) - eps)"
            " / (C(1) - minimum(maximum(self, eps), C(1) - eps)))",
            FLOATS, scalars="eps", types="float",
        ),
    ]  # fmt: skip


def filling() -> list[Definition]:
    """Operators that fill tensors with a number, everywhere or where a mask is True."""
    return [
        pointwise(
            "fill_.Scalar",
            "",
            "value",
            ALL,
            scalars="value",
            types="self",
            may_overlap=True,
            any_output=True,
        ),
        pointwise("zero_", "", "C(0)", ALL, types="self", may_overlap=True, any_output=True),
        pointwise(
            "masked_fill_.Scalar",
            "self mask",
            "where(mask, value, self)",
            ALL,
            scalars="value",
            types="self",
            masks=["mask"],
            any_output=True,
        ),
        decomposition(
            "masked_fill_.Tensor",
            lambda self, mask, value: self.masked_fill_(mask, value.item()),
            condition=_is_number,
            requires={"mask": of_dtype(torch.bool)},
            family="pointwise",
        ),
    ]


def _is_number(value: SymTensor) -> SymBool:
    return value.dim() == 0


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *arithmetic(),
        *comparison(),
        *bitwise(),
        *elementary(),
        *filling(),
        *activations.definitions(),
        *foreach.definitions(),
    ]
