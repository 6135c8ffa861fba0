"""Reductions: a state that is updated element by element (csrc/device_kernels/reduction)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import (
    COMPLEX,
    EVERY,
    FLOATS,
    ORDERED,
    REALS,
    Definition,
    caller_location,
    dtype_bits,
)
from torch_outboard.ops.requirements import Requirement, definition_of, not_of_dtype, of_dtype

COMPLEX_PRODUCT = (
    "s->product = (T)(s->product.x * {0}.x - s->product.y * {0}.y, "
    "s->product.x * {0}.y + s->product.y * {0}.x);"
)


class ReductionProperties(TypedDict, total=False):
    """Properties described in csrc/device_kernels/reduction/reduction.cpp."""

    types: Literal["same", "promote", "float", "test"]
    indices: list[bool]
    scalars: list[str]
    absent: dict[str, float]
    ordered: bool
    exceeds: str
    all_if_empty: bool
    widens: bool
    empty: float


def reduction(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    state: Mapping[str, Literal["T", "I"]],
    initial: str,
    step: str,
    merge: str,
    results: str | list[str],
    *,
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """Defines a reduction.

    Args:
        overloads: names without namespace, separated by blanks.
        dtypes: served dtypes of the input.
        state: the fields of the state and their types: T is that of values, I that of indices.
        initial, step, merge, results: see reduction.cpp.
        requires: requirements on arguments; see requirements.py.
    """
    known: dict[str, Any] = {
        "dtypes": dtype_bits(dtypes),
        "state": [f"{kind} {name}" for name, kind in state.items()],
        "initial": initial,
        "step": step,
        "merge": merge,
        "results": [results] if isinstance(results, str) else results,
        **properties,
    }
    location = caller_location()
    return definition_of("reduction", overloads, known, location=location, requires=requires)


def total(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    element: str,
    result: str = "s->total",
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """A sum over the expression `element` of `x`."""
    return reduction(
        overloads,
        dtypes,
        {"total": "T"},
        "s->total = C(0);",
        f"s->total += {element};",
        "s->total += t->total;",
        result,
        requires=requires,
        **properties,
    )


def extreme(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    sign: str,
    element: str = "x",
    requires: Mapping[str, Requirement] | None = None,
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """The largest (`sign` is ">") or smallest ("<") element; NaN if there is one."""
    limit = "OB_LOWEST" if sign == ">" else "OB_HIGHEST"
    take = "s->best = (({0} {1} s->best) | ({0} != {0})) ? {0} : s->best;"
    return reduction(
        overloads,
        dtypes,
        {"best": "T"},
        f"s->best = C({limit});",
        f"const T y = {element}; " + take.format("y", sign),
        take.format("t->best", sign),
        "s->best",
        requires=requires,
        **properties,
    )


def limits(overloads: str) -> Definition:
    """The smallest and the largest element; NaN if there is one."""
    take = "s->{0} = (({1} {2} s->{0}) | ({1} != {1})) ? {1} : s->{0};"
    return reduction(
        overloads,
        ORDERED,
        {"low": "T", "high": "T"},
        "s->low = C(OB_HIGHEST); s->high = C(OB_LOWEST);",
        take.format("low", "x", "<") + take.format("high", "x", ">"),
        take.format("low", "t->low", "<") + take.format("high", "t->high", ">"),
        ["s->low", "s->high"],
    )


def place(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    sign: str,
    results: list[str],
    indices: list[bool],
) -> Definition:
    """The index of the first largest or smallest element, or of the first NaN."""
    limit = "OB_LOWEST" if sign == ">" else "OB_HIGHEST"
    take = (
        "const M earlier = OB_VALUE_MASK({1} < s->place); const M nan = {0} != {0}; "
        "const M better = ({0} " + sign + " s->best) | (({0} == s->best) & earlier) | "
        "(nan & ((s->best == s->best) | earlier)); "
        "s->best = better ? {0} : s->best; s->place = OB_INDEX_MASK(better) ? {1} : s->place;"
    )
    return reduction(
        overloads,
        dtypes,
        {"best": "T", "place": "I"},
        f"s->best = C({limit}); s->place = (I)(INT_MAX);",
        take.format("x", "i"),
        take.format("t->best", "t->place"),
        results,
        indices=indices,
        ordered=True,
    )


def spread(overloads: str, results: str | list[str]) -> Definition:
    """Variance and functions of it, by Welford's updates."""
    return reduction(
        overloads,
        FLOATS,
        {"count": "T", "mean": "T", "squares": "T"},
        "s->count = C(0); s->mean = C(0); s->squares = C(0);",
        "const T d = x - s->mean; s->count += C(1); s->mean += d / s->count; "
        "s->squares += d * (x - s->mean);",
        "const T both = s->count + t->count; const T d = t->mean - s->mean; "
        "const T share = both > C(0) ? t->count / both : C(0); "
        "s->mean += d * share; s->squares += t->squares + d * d * s->count * share; "
        "s->count = both;",
        results,
        types="float",
        scalars=["correction"],
        absent={"correction": 1.0},
        exceeds="correction",
        empty=math.nan,
        all_if_empty=True,
    )


def norms() -> list[Definition]:
    """Norms of vectors: of five orders, then of any other."""
    overloads = "linalg_vector_norm linalg_vector_norm.out"
    shared: dict[str, Any] = {"widens": True, "types": "float", "all_if_empty": True}
    sums = (
        (0.0, "x != C(0) ? C(1) : C(0)", "s->total"),
        (1.0, "fabs(x)", "s->total"),
        (2.0, "x * x", "sqrt(s->total)"),
    )
    return [
        *(
            total(overloads, FLOATS, element, result, {"ord": order}, empty=0, **shared)
            for order, element, result in sums
        ),
        *(
            extreme(overloads, FLOATS, sign, "fabs(x)", {"ord": order}, **shared)
            for order, sign in ((math.inf, ">"), (-math.inf, "<"))
        ),
        total(
            overloads,
            FLOATS,
            "pow(fabs(x), C(ord))",
            "pow(s->total, (T)(1) / ord)",
            scalars=["ord"],
            **shared,
        ),
    ]


def _norms_one_by_one(
    self: list[torch.Tensor], ord: float, dtype: torch.dtype | None
) -> list[torch.Tensor]:
    """Norms of other orders, and of lists with several dtypes."""
    require(all(x.numel() > 0 for x in self))
    return [torch.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


def _list_norms() -> list[Definition]:
    number = not_of_dtype(torch.bool)
    return [
        definition_of(
            "list_norms",
            "_foreach_norm.Scalar",
            {"dtypes": dtype_bits(FLOATS)},
            location=caller_location(),
            requires={"dtype": None, "ord": number},
        ),
        decomposition("_foreach_norm.Scalar", _norms_one_by_one, requires={"ord": number}),
    ]


def products(dtypes: Iterable[torch.dtype], one: str, multiply: str) -> Definition:
    """A product; `multiply` multiplies `s->product` by its operand."""
    return reduction(
        "prod prod.dim_int prod.int_out prod.out",
        dtypes,
        {"product": "T"},
        f"s->product = {one};",
        multiply.format("x"),
        multiply.format("t->product"),
        "s->product",
        types="promote",
        empty=1,
    )


def truth(name: str, dtypes: Iterable[torch.dtype], nonzero: str) -> Definition:
    """Whether any or all elements are not zero; `nonzero` is a condition on its operand."""
    is_any = name == "any"
    first = int(not is_any)
    take = f"s->found = {nonzero} ? {{1}} : {{2}};"
    values = ("C(1)", "s->found") if is_any else ("s->found", "C(0)")
    return reduction(
        f"{name} {name}.dim {name}.dims {name}.out {name}.dims_out {name}.all_out",
        dtypes,
        {"found": "T"},
        f"s->found = C({first});",
        take.format("x", *values),
        take.format("t->found", *values),
        "s->found",
        types="test",
        empty=first,
    )


# ---- Norms, variances and standard deviations of complex values, computed from real ones


def _variance(
    self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    parts = torch.view_as_real(self)
    first = torch.var(parts.select(-1, 0), dim, correction=correction, keepdim=keepdim)
    return first + torch.var(parts.select(-1, 1), dim, correction=correction, keepdim=keepdim)


def _deviation(
    self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    return torch.sqrt(_variance(self, dim, correction, keepdim))


def _and_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def body(
        self: Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
    ) -> tuple[Tensor, Tensor]:
        return spread(self, dim, correction, keepdim), torch.mean(self, dim, keepdim)

    return body


def _complex_norm(
    self: Tensor, ord: float, dim: list[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Tensor:
    values = torch.abs(self if dtype is None else self.to(dtype))
    norm: Tensor = torch.linalg.vector_norm(values, ord, dim, keepdim)
    return norm


def _complex_spreads() -> list[Definition]:
    """Operators over complex values, by those over real ones."""
    bodies: dict[str, Callable[..., Any]] = {
        "var.correction var.correction_out": _variance,
        "std.correction std.correction_out": _deviation,
        "var_mean.correction var_mean.correction_out": _and_mean(_variance),
        "std_mean.correction std_mean.correction_out": _and_mean(_deviation),
    }
    return [
        # `dtype` is the elements' dtype; PyTorch raises if it is not complex.
        decomposition(
            "linalg_vector_norm linalg_vector_norm.out",
            _complex_norm,
            dtypes=COMPLEX,
            requires={"dtype": of_dtype(*COMPLEX)},
        ),
        *(decomposition(overloads, body, dtypes=COMPLEX) for overloads, body in bodies.items()),
    ]


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    sums = "sum sum.dim_IntList sum.IntList_out sum.out"
    means = "mean mean.dim mean.out mean.dtype_out"
    of_floats: dict[str, Any] = {"types": "float", "all_if_empty": True}
    variance = "(s->squares / fmax(n - correction, (T)(0)))"
    counted = "OB_INDEX_MASK(x != C(0)) ? (I)(1) : (I)(0)"
    return [
        *_list_norms(),
        total(sums, EVERY, "x", types="promote", all_if_empty=True, empty=0),
        # CPU sums integers by another operator and refuses outputs of other dtypes.
        total("nansum nansum.out", FLOATS, "x == x ? x : C(0)", empty=0, **of_floats),
        total(means, FLOATS, "x", "s->total / n", empty=math.nan, **of_floats),
        total(means, COMPLEX, "x", "s->total / n.x", empty=math.nan, **of_floats),
        products(ORDERED, "C(1)", "s->product *= {0};"),
        products(COMPLEX, "(T)(1, 0)", COMPLEX_PRODUCT),
        extreme("amax amax.out", ORDERED, ">", all_if_empty=True),
        extreme("amin amin.out", ORDERED, "<", all_if_empty=True),
        extreme("max max.unary_out", ORDERED, ">"),
        extreme("min min.unary_out", ORDERED, "<"),
        place("argmax argmax.out", REALS, ">", ["s->place"], [True]),
        place("argmin argmin.out", REALS, "<", ["s->place"], [True]),
        place("max.dim max.dim_max", ORDERED, ">", ["s->best", "s->place"], [False, True]),
        place("min.dim min.dim_min", ORDERED, "<", ["s->best", "s->place"], [False, True]),
        *(truth(name, ORDERED, "{0} != C(0)") for name in ("any", "all")),
        *(truth(name, COMPLEX, "({0}.x != 0 || {0}.y != 0)") for name in ("any", "all")),
        reduction(
            "count_nonzero.dim_IntList count_nonzero.dim_IntList_out",
            ORDERED,
            {"count": "I"},
            "s->count = (I)(0);",
            f"s->count += {counted};",
            "s->count += t->count;",
            "s->count",
            indices=[True],
            all_if_empty=True,
            empty=0,
        ),
        limits("aminmax aminmax.out"),
        spread("var.correction var.correction_out", variance),
        spread("std.correction std.correction_out", f"sqrt{variance}"),
        spread("var_mean.correction var_mean.correction_out", [variance, "s->mean"]),
        spread("std_mean.correction std_mean.correction_out", [f"sqrt{variance}", "s->mean"]),
        *norms(),
        *_complex_spreads(),
    ]
