"""Reductions: a state that is updated element by element (csrc/device_kernels/reduction)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Unpack, cast

import torch

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Definition,
    Properties,
    caller_location,
    dtype_bits,
    qualified,
)
from torch_outboard.ops.requirements import not_of_dtype, served_calls

NUMBERS = (*FLOATS, *INTEGERS)
REAL = (*NUMBERS, *BOOL)

COMPLEX_PRODUCT = (
    "s->product = (T)(s->product.x * {0}.x - s->product.y * {0}.y, "
    "s->product.x * {0}.y + s->product.y * {0}.x);"
)


class ReductionProperties(Properties, total=False):
    """Properties described in csrc/device_kernels/reduction/reduction.h."""

    types: Literal["same", "promote", "float", "test"]
    indices: list[str]
    scalars: list[str]
    absent: dict[str, str]
    ordered: bool
    exceeds: str
    all_if_empty: bool
    widens: bool
    empty: str


def reduction(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    state: str,
    initial: str,
    step: str,
    merge: str,
    results: str | list[str],
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """Defines a reduction.

    Args:
        overloads: names without namespace, separated by blanks.
        dtypes: served dtypes of the input.
        state: fields of the state, separated by commas.
        initial, step, merge, results: see reduction.h.
    """
    return {
        "kind": "reduction",
        "location": caller_location(),
        "overloads": qualified(overloads),
        "dtypes": dtype_bits(dtypes),
        "state": [field.strip() for field in state.split(",")],
        "initial": initial,
        "step": step,
        "merge": merge,
        "results": [results] if isinstance(results, str) else results,
        **cast("Definition", properties),
    }


def total(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    element: str,
    result: str = "s->total",
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """A sum over the expression `element` of `x`."""
    return reduction(
        overloads,
        dtypes,
        "T total",
        "s->total = C(0);",
        f"s->total += {element};",
        "s->total += t->total;",
        result,
        **properties,
    )


def extreme(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    sign: str,
    element: str = "x",
    **properties: Unpack[ReductionProperties],
) -> Definition:
    """The largest (`sign` is ">") or smallest ("<") element; NaN if there is one."""
    limit = "OB_LOWEST" if sign == ">" else "OB_HIGHEST"
    take = "s->best = (({0} {1} s->best) | ({0} != {0})) ? {0} : s->best;"
    return reduction(
        overloads,
        dtypes,
        "T best",
        f"s->best = C({limit});",
        f"const T y = {element}; " + take.format("y", sign),
        take.format("t->best", sign),
        "s->best",
        **properties,
    )


def limits(overloads: str) -> Definition:
    """The smallest and the largest element; NaN if there is one."""
    take = "s->{0} = (({1} {2} s->{0}) | ({1} != {1})) ? {1} : s->{0};"
    return reduction(
        overloads,
        REAL,
        "T low, T high",
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
    indices: list[str],
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
        "T best, I place",
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
        "T count, T mean, T squares",
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
        absent={"correction": "1"},
        exceeds="correction",
        empty="nan",
        all_if_empty=True,
    )


def norm(order: float, row: Definition) -> Definition:
    """The definition restricted to norms of one order."""
    return {**row, "widens": True, **served_calls("aten::linalg_vector_norm", {"ord": order})}


def _norms_one_by_one(
    self: list[torch.Tensor], ord: float, dtype: torch.dtype | None
) -> list[torch.Tensor]:
    """Norms of other orders, and of lists with several dtypes."""
    require(all(x.numel() > 0 for x in self))
    return [torch.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


def _list_norms() -> list[Definition]:
    names = qualified("_foreach_norm.Scalar")
    number = not_of_dtype(torch.bool)
    return [
        {
            "kind": "list_norms",
            "overloads": names,
            "dtypes": dtype_bits(FLOATS),
            "family": "reduction",
            **served_calls(names[0], {"dtype": None, "ord": number}),
        },
        decomposition(
            "_foreach_norm.Scalar",
            _norms_one_by_one,
            requires={"ord": number},
            family="reduction",
        ),
    ]


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    sums = "sum sum.dim_IntList sum.IntList_out sum.out"
    means = "mean mean.dim mean.out mean.dtype_out"
    norms = "linalg_vector_norm linalg_vector_norm.out"
    variance = "(s->squares / fmax(n - correction, (T)(0)))"
    any_overloads = "any any.dim any.dims any.out any.dims_out any.all_out"
    all_overloads = "all all.dim all.dims all.out all.dims_out all.all_out"
    return [
        *_list_norms(),
        total(sums, (*REAL, *COMPLEX), "x", types="promote", all_if_empty=True, empty="0"),
        # CPU sums integers by another operator and refuses outputs of other dtypes.
        total(
            "nansum nansum.out",
            FLOATS,
            "x == x ? x : C(0)",
            empty="0",
            types="float",
            all_if_empty=True,
        ),
        total(
            means, FLOATS, "x", result="s->total / n", empty="nan", types="float", all_if_empty=True
        ),
        total(
            means,
            COMPLEX,
            "x",
            result="s->total / n.x",
            empty="nan",
            types="float",
            all_if_empty=True,
        ),
        reduction(
            "prod prod.dim_int prod.int_out prod.out",
            REAL,
            "T product",
            "s->product = C(1);",
            "s->product *= x;",
            "s->product *= t->product;",
            "s->product",
            types="promote",
            empty="1",
        ),
        reduction(
            "prod prod.dim_int prod.int_out prod.out",
            COMPLEX,
            "T product",
            "s->product = (T)(1, 0);",
            COMPLEX_PRODUCT.format("x"),
            COMPLEX_PRODUCT.format("t->product"),
            "s->product",
            types="promote",
            empty="1",
        ),
        extreme("amax amax.out", REAL, ">", all_if_empty=True),
        extreme("amin amin.out", REAL, "<", all_if_empty=True),
        extreme("max max.unary_out", REAL, ">"),
        extreme("min min.unary_out", REAL, "<"),
        place("argmax argmax.out", NUMBERS, ">", ["s->place"], ["True"]),
        place("argmin argmin.out", NUMBERS, "<", ["s->place"], ["True"]),
        place("max.dim max.dim_max", REAL, ">", ["s->best", "s->place"], ["False", "True"]),
        place("min.dim min.dim_min", REAL, "<", ["s->best", "s->place"], ["False", "True"]),
        reduction(
            any_overloads,
            REAL,
            "T found",
            "s->found = C(0);",
            "s->found = x != C(0) ? C(1) : s->found;",
            "s->found = t->found != C(0) ? C(1) : s->found;",
            "s->found",
            types="test",
            empty="0",
        ),
        reduction(
            all_overloads,
            REAL,
            "T found",
            "s->found = C(1);",
            "s->found = x != C(0) ? s->found : C(0);",
            "s->found = t->found != C(0) ? s->found : C(0);",
            "s->found",
            types="test",
            empty="1",
        ),
        reduction(
            any_overloads,
            COMPLEX,
            "T found",
            "s->found = C(0);",
            "s->found = (x.x != 0 || x.y != 0) ? C(1) : s->found;",
            "s->found = (t->found.x != 0 || t->found.y != 0) ? C(1) : s->found;",
            "s->found",
            types="test",
            empty="0",
        ),
        reduction(
            all_overloads,
            COMPLEX,
            "T found",
            "s->found = C(1);",
            "s->found = (x.x != 0 || x.y != 0) ? s->found : C(0);",
            "s->found = (t->found.x != 0 || t->found.y != 0) ? s->found : C(0);",
            "s->found",
            types="test",
            empty="1",
        ),
        reduction(
            "count_nonzero.dim_IntList count_nonzero.dim_IntList_out",
            REAL,
            "I count",
            "s->count = (I)(0);",
            "s->count += OB_INDEX_MASK(x != C(0)) ? (I)(1) : (I)(0);",
            "s->count += t->count;",
            "s->count",
            indices=["True"],
            all_if_empty=True,
            empty="0",
        ),
        limits("aminmax aminmax.out"),
        spread("var.correction var.correction_out", variance),
        spread("std.correction std.correction_out", f"sqrt{variance}"),
        spread("var_mean.correction var_mean.correction_out", [variance, "s->mean"]),
        spread("std_mean.correction std_mean.correction_out", [f"sqrt{variance}", "s->mean"]),
        norm(
            0.0,
            total(
                norms,
                FLOATS,
                "x != C(0) ? C(1) : C(0)",
                empty="0",
                types="float",
                all_if_empty=True,
            ),
        ),
        norm(1.0, total(norms, FLOATS, "fabs(x)", empty="0", types="float", all_if_empty=True)),
        norm(
            2.0,
            total(
                norms,
                FLOATS,
                "x * x",
                result="sqrt(s->total)",
                empty="0",
                types="float",
                all_if_empty=True,
            ),
        ),
        norm(math.inf, extreme(norms, FLOATS, ">", "fabs(x)", types="float", all_if_empty=True)),
        norm(-math.inf, extreme(norms, FLOATS, "<", "fabs(x)", types="float", all_if_empty=True)),
        # Any other order.
        total(
            norms,
            FLOATS,
            "pow(fabs(x), C(ord))",
            result="pow(s->total, (T)(1) / ord)",
            scalars=["ord"],
            widens=True,
            types="float",
            all_if_empty=True,
        ),
    ]
