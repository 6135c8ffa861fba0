"""Pointwise operators: operator definitions of the kind `pointwise`.

Arithmetic, comparison and elementary functions, also over lists of tensors; activations are in
activations.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import (
    BOOL,
    COMPLEX,
    EVERY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REALS,
    WIDE,
    Definition,
)
from torch_outboard.ops.expression import (
    FORMS,
    LERP,
    OUT,
    binary,
    calls,
    pointwise,
    unary,
    with_alpha,
)
from torch_outboard.ops.pointwise import activations
from torch_outboard.ops.symbolic import (
    SymBool,
    SymTensor,
    SymTensors,
    given,
    has_dtype,
    has_other_dtype,
    same_dtype,
)

TWO = "self other"


def arithmetic() -> list[Definition]:
    def no_bool(self: SymTensor, other: SymTensor) -> SymBool:
        return has_other_dtype(self, torch.bool) & has_other_dtype(other, torch.bool)

    modes = "div.Tensor_mode div_.Tensor_mode div.out_mode"
    fractions = (*FLOATS, *COMPLEX)
    return [
        with_alpha("add.Tensor add_.Tensor add.out", TWO, "add", EVERY),
        with_alpha("sub.Tensor sub_.Tensor sub.out", TWO, "sub", NUMBERS, condition=no_bool),
        with_alpha("rsub.Tensor", "other self", "sub", NUMBERS, condition=no_bool),
        *binary("mul", EVERY),
        *binary({"div": "truediv"}, fractions, types="float"),
        *calls(modes, "truediv", TWO, fractions, types="float", condition=_rounds(None)),
        *calls(modes, "truncdiv", TWO, REALS, divisor="other", condition=_rounds("trunc")),
        *calls(modes, "floordiv", TWO, REALS, divisor="other", condition=_rounds("floor")),
        *calls(
            "floor_divide floor_divide_.Tensor floor_divide.out",
            "floordiv",
            TWO,
            REALS,
            divisor="other",
        ),
        *binary("remainder fmod", REALS, "Tensor_out", divisor="other"),
        *calls("{}.Scalar_Tensor", "remainder", TWO, REALS, divisor="other"),
        *_powers(),
        *calls(OUT, "maximum minimum fmax fmin", TWO, ORDERED),
        *binary("copysign", FLOATS, types="float"),
        *calls(FORMS, "atan2", TWO, FLOATS, types="float"),
        *calls(FORMS, "hypot", TWO, FLOATS),
        *calls(FORMS, "nextafter", TWO, WIDE),
        *calls(OUT, "logaddexp", TWO, fractions),
        *calls(OUT, "logaddexp2", TWO, FLOATS),
        *binary("xlogy", FLOATS, "OutTensor", types="float"),
        *calls("special_{} special_{}.out", "xlog1py", TWO, FLOATS, types="float"),
        pointwise(
            "heaviside heaviside_ heaviside.out",
            "self values",
            "(self == C(0)) ? values : ((self > C(0)) ? C(1) : C(0))",
            ORDERED,
            condition=lambda self, values: same_dtype(values, self),
            same_output=True,
        ),
        *_ternary(),
        *_clamps(),
    ]


def _rounds(mode: str | None) -> Callable[..., SymBool]:
    return lambda rounding_mode: rounding_mode == mode


def _powers() -> list[Definition]:
    names = "pow.Tensor_Scalar pow_.Scalar pow.Tensor_Scalar_out"
    floats = (*FLOATS, *COMPLEX)
    special = {
        2: ("mul(self, self)", NUMBERS),
        3: ("mul(mul(self, self), self)", NUMBERS),
        1: ("self", NUMBERS),
        0: ("(T)(1, 0)", COMPLEX),
        0.5: ("sqrt(self)", floats),
        -0.5: ("rsqrt(self)", floats),
        -1: ("reciprocal(self)", floats),
        -2: ("reciprocal(mul(self, self))", floats),
    }

    def power(value: float, expression: str, dtypes: Iterable[torch.dtype]) -> Definition:
        return pointwise(
            names, "self exponent", expression, dtypes, condition=lambda exponent: exponent == value
        )

    return [
        *(power(value, *rest) for value, rest in special.items()),
        # CPU raises for integers to negative powers.
        *calls(names, "pow", "self exponent", floats),
        *calls(
            "pow.Tensor_Tensor pow_.Tensor pow.Tensor_Tensor_out", "pow", "self exponent", NUMBERS
        ),
        *calls("pow.Scalar pow.Scalar_out", "pow", "self exponent", NUMBERS),
    ]


def _ternary() -> list[Definition]:
    lerps = ((LERP, FLOATS), (_COMPLEX_LERP, COMPLEX))
    return [
        pointwise(
            "addcmul addcmul_ addcmul.out", "self tensor1 tensor2",
            "add(self, mul(mul(value, tensor1), tensor2))", NUMBERS, scalars="value", strict=True,
        ),
        pointwise(
            "addcdiv addcdiv_ addcdiv.out", "self tensor1 tensor2",
            "add(self, truediv(mul(value, tensor1), tensor2))", (*FLOATS, *COMPLEX),
            scalars="value",
        ),
        *(
            pointwise(
                "lerp.Scalar lerp_.Scalar lerp.Scalar_out", "self end", expression, dtypes,
                scalars="weight", types="same",
            )
            for expression, dtypes in lerps
        ),
        *(
            pointwise(
                "lerp.Tensor lerp_.Tensor lerp.Tensor_out", "self end weight", expression, dtypes,
                types="same", same_output=True,
            )
            for expression, dtypes in lerps
        ),
        pointwise(
            "where.self where.self_out", "condition self other",
            "where(condition, self, other)", EVERY, masks=["condition"], same_output=True,
        ),
    ]  # fmt: skip


def _clamps() -> list[Definition]:
    """Clamps by numbers and by tensors."""
    low, high = {"min": "low"}, {"max": "high"}
    # For zeros minimum and maximum return the second operand, so self keeps its sign.
    above, below = "maximum(low, self)", "minimum(high, self)"
    both = f"minimum(high, {above})"
    result = []
    for name, bounds, expression, condition in (
        ("clamp", {**low, **high}, both, None),
        ("clamp", low, above, lambda max: ~given(max)),
        ("clamp", high, below, lambda min: ~given(min)),
        ("clamp_min", low, above, None),
        ("clamp_max", high, below, None),
    ):
        result += [
            pointwise(
                FORMS.replace("{}", name), "self", expression, REALS, scalars=bounds,
                promoting=list(bounds.values()), condition=condition, same_output=True,
            ),
            pointwise(
                f"{name}.Tensor {name}_.Tensor {name}.Tensor_out", {"self": "self", **bounds},
                expression, REALS, condition=condition,
            ),
        ]  # fmt: skip
    return result


_COMPLEX_LERP = (
    "((weight.x * weight.x + weight.y * weight.y < (S)0.25) ? self + mul(weight, end - self)"
    " : end - mul(end - self, (T)(1, 0) - weight))"
)


def comparison() -> list[Definition]:
    forms = " ".join(f"{{}}.{kind} {{}}_.{kind} {{}}.{kind}_out" for kind in ("Tensor", "Scalar"))
    # Results are bool, or have the dtype of the given output.
    flags: dict[str, Any] = {"result": "mask", "any_output": True}
    return [
        *calls(forms, "eq ne", TWO, EVERY, **flags),
        *calls(forms, "lt le gt ge", TWO, ORDERED, **flags),
        *calls(FORMS, "logical_and logical_or logical_xor", TWO, EVERY, **flags),
        *calls(FORMS, "logical_not", "self", EVERY, **flags),
        *calls("{}", "isnan", "self", EVERY, **flags),
        # CPU raises for outputs of another dtype.
        *calls(OUT, "isposinf isneginf signbit", "self", ORDERED, same_output=True, **flags),
    ]


def bitwise() -> list[Definition]:
    whole = (*INTEGERS, *BOOL)
    return [
        *binary("bitwise_and bitwise_or bitwise_xor", whole, "Tensor_out"),
        *unary("bitwise_not", whole, same_output=True),
        *binary("bitwise_left_shift bitwise_right_shift", INTEGERS, "Tensor_out"),
        *(
            definition
            for side in ("left", "right")
            for definition in calls(
                "__{}shift__.Tensor __{}shift__.Scalar __i{}shift__.Tensor __i{}shift__.Scalar",
                {side[0]: f"bitwise_{side}_shift"},
                TWO,
                INTEGERS,
            )
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
        *unary("neg", NUMBERS, same_output=True),
        *unary({"sgn": "sign"}, EVERY, same_output=True),
        *unary("sign", ORDERED, same_output=True),
        *unary("floor ceil trunc round", REALS, same_output=True),
        *unary("frac", FLOATS, same_output=True),
        *unary("relu", REALS, same_output=True),
        *unary("abs", REALS, same_output=True),
        pointwise("abs abs.out", "self", "abs(self)", COMPLEX, result="real"),
        pointwise("angle angle.out", "self", "angle(self)", FLOATS, types="float"),
        pointwise("angle angle.out", "self", "angle(self)", COMPLEX, result="real"),
        pointwise(
            "conj_physical_ conj_physical.out", "self", "conj(self)", EVERY, same_output=True
        ),
        pointwise(
            "complex complex.out", "real imag", "complex(real, imag)",
            WIDE, types="complex",
            condition=lambda real, imag: same_dtype(imag, real), same_output=True,
        ),
        pointwise(
            "polar polar.out", {"abs": "length", "angle": "angle"}, "polar(length, angle)",
            WIDE, types="complex",
            condition=lambda abs, angle: same_dtype(angle, abs), same_output=True,
        ),
        *(
            pointwise(
                "nan_to_num nan_to_num_ nan_to_num.out",
                "self",
                "(self != self) ? for_nan : ((self == C(INFINITY)) ? for_positive"
                " : ((self == C(-INFINITY)) ? for_negative : self))",
                (dtype,),
                scalars={"nan": "for_nan", "posinf": "for_positive", "neginf": "for_negative"},
                absent={
                    "for_nan": 0.0,
                    "for_positive": torch.finfo(dtype).max,
                    "for_negative": torch.finfo(dtype).min,
                },
                same_output=True,
            )
            for dtype in FLOATS
        ),
        pointwise(
            "logit logit_ logit.out", "self", "log(self / (C(1) - self))", FLOATS,
            condition=lambda eps: ~given(eps), types="float",
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
            "fill_.Scalar", "", "value", EVERY, scalars="value", types="self", may_overlap=True,
            any_output=True,
        ),
        pointwise("zero_", "", "C(0)", EVERY, types="self", may_overlap=True, any_output=True),
        pointwise(
            "masked_fill_.Scalar", "self mask", "where(mask, value, self)", EVERY,
            scalars="value", types="self", masks=["mask"], any_output=True,
        ),
        decomposition(
            "masked_fill_.Tensor",
            lambda self, mask, value: self.masked_fill_(mask, value.item()),
            condition=lambda mask, value: (value.dim() == 0) & has_dtype(mask, torch.bool),
        ),
    ]  # fmt: skip


# ---- Operators over lists of tensors

_FRACTIONS = (*FLOATS, *COMPLEX)


def _list_forms(name: str, *overloads: str) -> str:
    base = f"_foreach_{name}"
    if not overloads:
        return f"{base} {base}_"
    return " ".join(f"{base}.{o} {base}_.{o}" for o in overloads)


def over_lists() -> list[Definition]:
    """Every operator definition of this module."""
    forms = "_foreach_{} _foreach_{}_"
    fractions = "exp log log2 log10 sqrt rsqrt sin cos sinh cosh tan tanh sigmoid reciprocal"
    reals = "expm1 log1p erf erfc lgamma asin acos atan"
    return [
        *calls(forms, fractions, "self", _FRACTIONS, types="float"),
        *calls(forms, reals, "self", FLOATS, types="float"),
        *calls(forms, "neg", "self", NUMBERS),
        *calls(forms, "abs floor ceil trunc round", "self", REALS),
        *calls(forms, "sign", "self", ORDERED),
        *calls(forms, "frac", "self", FLOATS),
        pointwise("_foreach_zero_", "self", "C(0)", EVERY, types="self", any_output=True),
        *_list_binary(),
        *_list_ternary(),
    ]


def _list_binary() -> list[Definition]:
    result = []
    for kind, other in (("List", "other"), ("Scalar", "scalar"), ("ScalarList", "scalars")):
        operands = {"self": "self", other: "other"}

        def no_bool(self: SymTensors, **rest: Any) -> SymBool:
            second, *_ = rest.values()
            return has_other_dtype(self, torch.bool) & has_other_dtype(second, torch.bool)

        result += [
            with_alpha(_list_forms("sub", kind), operands, "sub", NUMBERS, condition=no_bool),
            *_sums_and_quotients(kind, operands),
        ]
        for name, function in (
            ("clamp_min", "maximum"), ("clamp_max", "minimum"),
            ("maximum", "maximum"), ("minimum", "minimum"),
        ):  # fmt: skip
            expression = f"{function}(self, other)"
            result.append(pointwise(_list_forms(name, kind), operands, expression, REALS))
        forms = _list_forms("pow", kind)
        result.append(pointwise(forms, "self exponent", "pow(self, exponent)", FLOATS))
    return [*result, *_sums_and_quotients("Tensor", {"self": "self", "other": "other"})]


def _sums_and_quotients(kind: str, operands: dict[str, str]) -> list[Definition]:
    return [
        with_alpha(_list_forms("add", kind), operands, "add", EVERY),
        pointwise(_list_forms("mul", kind), operands, "mul(self, other)", EVERY),
        pointwise(
            _list_forms("div", kind), operands, "truediv(self, other)", _FRACTIONS, types="float"
        ),
    ]


def _list_ternary() -> list[Definition]:
    return [
        *(
            pointwise(
                _list_forms(name, kind),
                "self tensor1 tensor2",
                f"add(self, {function}(mul(value, tensor1), tensor2))",
                dtypes,
                scalars={scalar: "value"},
                strict=True,
            )
            for kind, scalar in (("Scalar", "value"), ("ScalarList", "scalars"))
            for name, function, dtypes in (
                ("addcmul", "mul", NUMBERS),
                ("addcdiv", "truediv", _FRACTIONS),
            )
        ),
        pointwise(
            _list_forms("lerp", "List"),
            {"self": "self", "tensors1": "end", "weights": "weight"},
            LERP,
            FLOATS,
            condition=lambda self, tensors1, weights: (
                same_dtype(tensors1, self) & same_dtype(weights, self)
            ),
        ),
        pointwise(
            _list_forms("lerp", "Scalar"),
            {"self": "self", "tensors1": "end"},
            LERP,
            FLOATS,
            scalars="weight",
            condition=lambda self, tensors1: same_dtype(tensors1, self),
        ),
    ]


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *arithmetic(),
        *comparison(),
        *bitwise(),
        *elementary(),
        *filling(),
        *activations.definitions(),
        *over_lists(),
    ]
