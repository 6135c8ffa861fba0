"""Reductions: a state joined with the states of elements (csrc/device_kernels/reduction)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

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
    definition_of,
    dtype_bits,
)
from torch_outboard.ops.symbolic import SymBool, given, has_dtype, has_other_dtype


@dataclass(frozen=True)
class Field:
    """A field of a state, by expressions in OpenCL C, for scalars and vectors.

    Attributes:
        start: the value before the first element.
        element: the value for a single element `x` with the index `i`.
        joined: the value of a state `a` joined with a later state `b`, whose fields are `a_<name>`
            and `b_<name>`.
        type: `T` of values, or `I` of indices.
    """

    start: str
    element: str
    joined: str
    type: Literal["T", "I"] = "T"


@dataclass(kw_only=True, eq=False, repr=False)
class Reduction(Definition):
    """A state per result: an identity that takes elements, merges and is converted to results.

    Statements in OpenCL C hold for scalars and vectors alike. T, M, C(x) are as in scalar
    functions; OB_LOWEST and OB_HIGHEST are the limits of the compute dtype; OB_INDEX_MASK(m) makes
    a mask of values one of indices, OB_VALUE_MASK(m) the other way round.
    """

    kind: ClassVar[str] = "reduction"
    state: list[str]  # "T name" for values of the compute dtype, "I name" for indices (int)
    # Statements on `s`; on `s` with the element `x` and its index `i`; on `s` with a later state
    # `t`.
    initial: str
    step: str
    merge: str
    results: list[str]  # expressions of the fields and of `n`, the number of elements
    indices: list[bool] = field(default_factory=list)  # per result: it is an index
    # Results have the dtype of the input; integers become int64; floating-point dtypes only; bool,
    # but uint8 for uint8.
    types: Literal["same", "promote", "float", "test"] = "same"
    scalars: list[str] = field(default_factory=list)  # arguments, and parameters of statements
    absent: dict[str, float] = field(default_factory=dict)  # values of scalars for None
    ordered: bool = False  # indices count in the logical order of the input
    exceeds: str = ""  # of the scalars; a warning unless the number of elements exceeds it
    all_if_empty: bool = False  # an empty list of dimensions means all of them, not none
    widens: bool = False  # an argument `dtype` that cannot hold every value is declined
    empty: float | None = None  # the result of no elements; None: such calls are declined
    dtypes: int  # bits of the served dtypes of the input


def reduction(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    state: Mapping[str, Field],
    results: Sequence[str],
    **fields: Any,
) -> Reduction:
    """Defines a reduction.

    Args:
        overloads: names without namespace, separated by blanks.
        dtypes: served dtypes of the input.
        state: the fields of the state, by name.
        results: an expression of fields and of the number of elements `n` for each result.
        fields: further fields of Reduction, and of definition_of.
    """
    return definition_of(
        Reduction,
        overloads,
        location=caller_location(),
        dtypes=dtype_bits(dtypes),
        state=[f"{each.type} {name}" for name, each in state.items()],
        initial=" ".join(f"s->{name} = {each.start};" for name, each in state.items()),
        step=_join(state, {name: each.element for name, each in state.items()}),
        merge=_join(state, {name: f"t->{name}" for name in state}),
        results=list(results),
        **fields,
    )


def _join(state: Mapping[str, Field], later: Mapping[str, str]) -> str:
    """Statements that join `*s` with a later state, whose fields are given as expressions."""
    read, joined, stored = "", "", ""
    for name, each in state.items():
        read += f"const {each.type} a_{name} = s->{name}, b_{name} = {later[name]}; "
        joined += f"const {each.type} {name} = {each.joined}; "
        stored += f"s->{name} = {name}; "
    return read + joined + stored


SUMS, MEANS = "sum sum.dim_IntList sum.IntList_out sum.out", "mean mean.dim mean.out mean.dtype_out"
NORM = "linalg_vector_norm linalg_vector_norm.out"


def total(
    overloads: str,
    dtypes: Iterable[torch.dtype],
    element: str,
    result: str = "total",
    **fields: Any,
) -> Reduction:
    """A sum over the expression `element` of `x`; over all elements without dimensions."""
    state = {"total": Field("C(0)", element, "a_total + b_total")}
    return reduction(overloads, dtypes, state, [result], all_if_empty=True, **fields)


def _best(name: str, sign: str, element: str = "x") -> dict[str, Field]:
    """A field: the largest (`sign` is ">") or smallest ("<") element; NaN if there is one."""
    limit = "OB_LOWEST" if sign == ">" else "OB_HIGHEST"
    a, b = f"a_{name}", f"b_{name}"
    return {name: Field(f"C({limit})", element, f"(({b} {sign} {a}) | ({b} != {b})) ? {b} : {a}")}


def extreme(
    overloads: str, dtypes: Iterable[torch.dtype], sign: str, element: str = "x", **fields: Any
) -> Reduction:
    """The largest or smallest element."""
    return reduction(overloads, dtypes, _best("best", sign, element), ["best"], **fields)


def location(
    overloads: str, dtypes: Iterable[torch.dtype], sign: str, results: Sequence[str]
) -> Reduction:
    """The index of the first largest or smallest element, or of the first NaN."""
    limit = "OB_LOWEST" if sign == ">" else "OB_HIGHEST"
    earlier = "OB_VALUE_MASK(b_index < a_index)"
    better = (
        f"((b_best {sign} a_best) | ((b_best == a_best) & {earlier}) |"
        f" ((b_best != b_best) & ((a_best == a_best) | {earlier})))"
    )
    state = {
        "best": Field(f"C({limit})", "x", f"{better} ? b_best : a_best"),
        "index": Field("(I)(INT_MAX)", "i", f"OB_INDEX_MASK({better}) ? b_index : a_index", "I"),
    }
    indices = [result == "index" for result in results]
    return reduction(overloads, dtypes, state, results, indices=indices, ordered=True)


def spread(overloads: str, results: Sequence[str]) -> Reduction:
    """Variance and functions of it, by the method of Chan, Golub and LeVeque (1979)."""
    count = "(a_count + b_count)"
    share = f"({count} > C(0) ? b_count / {count} : C(0))"
    distance = "(b_mean - a_mean)"
    state = {
        "count": Field("C(0)", "C(1)", count),
        "mean": Field("C(0)", "x", f"a_mean + {distance} * {share}"),
        "squares": Field(
            "C(0)", "C(0)", f"a_squares + b_squares + {distance} * {distance} * a_count * {share}"
        ),
    }
    return reduction(
        overloads,
        FLOATS,
        state,
        results,
        types="float",
        scalars=["correction"],
        absent={"correction": 1.0},
        exceeds="correction",
        empty=math.nan,
        all_if_empty=True,
    )


def norms() -> list[Reduction]:
    """Norms of vectors: of five orders, then of any other."""
    sums = (
        (0.0, "x != C(0) ? C(1) : C(0)", "total"),
        (1.0, "fabs(x)", "total"),
        (2.0, "x * x", "sqrt(total)"),
    )
    of_norms: dict[str, Any] = {"widens": True, "types": "float"}

    def is_order(order: float) -> Callable[..., SymBool]:
        return lambda ord: ord == order

    return [
        *(
            total(NORM, FLOATS, element, result, empty=0, condition=is_order(order), **of_norms)
            for order, element, result in sums
        ),
        *(
            extreme(
                NORM, FLOATS, sign, "fabs(x)",
                condition=is_order(order), all_if_empty=True, **of_norms,
            )
            for order, sign in ((math.inf, ">"), (-math.inf, "<"))
        ),
        total(
            NORM, FLOATS, "pow(fabs(x), C(ord))", "pow(total, (T)(1) / ord)",
            scalars=["ord"], **of_norms,
        ),
    ]  # fmt: skip


def products(dtypes: Iterable[torch.dtype], one: str, product: str) -> Reduction:
    """A product."""
    return reduction(
        "prod prod.dim_int prod.int_out prod.out",
        dtypes,
        {"product": Field(one, "x", product)},
        ["product"],
        types="promote",
        empty=1,
    )


def truth(name: str, dtypes: Iterable[torch.dtype], nonzero: str) -> Reduction:
    """Whether any or all elements are not zero; `nonzero` is a condition on its operand."""
    is_any = name == "any"
    later = nonzero.format("b_found")
    found = Field(
        "C(0)" if is_any else "C(1)",
        f"{nonzero.format('x')} ? C(1) : C(0)",
        f"{later} ? C(1) : a_found" if is_any else f"{later} ? a_found : C(0)",
    )
    return reduction(
        f"{name} {name}.dim {name}.dims {name}.out {name}.dims_out {name}.all_out",
        dtypes,
        {"found": found},
        ["found"],
        types="test",
        empty=int(not is_any),
    )


def _reductions() -> list[Reduction]:
    variance = "(squares / fmax(n - correction, (T)(0)))"
    mean_of: dict[str, Any] = {"types": "float", "empty": math.nan}
    counted = Field(
        "(I)(0)", "OB_INDEX_MASK(x != C(0)) ? (I)(1) : (I)(0)", "a_count + b_count", "I"
    )
    complex_product = (
        "(T)(a_product.x * b_product.x - a_product.y * b_product.y,"
        " a_product.x * b_product.y + a_product.y * b_product.x)"
    )
    return [
        total(SUMS, EVERY, "x", types="promote", empty=0),
        # CPU sums integers by another operator and refuses outputs of other dtypes.
        total("nansum nansum.out", FLOATS, "x == x ? x : C(0)", types="float", empty=0),
        total(MEANS, FLOATS, "x", "total / n", **mean_of),
        total(MEANS, COMPLEX, "x", "total / n.x", **mean_of),
        products(ORDERED, "C(1)", "a_product * b_product"),
        products(COMPLEX, "(T)(1, 0)", complex_product),
        extreme("amax amax.out", ORDERED, ">", all_if_empty=True),
        extreme("amin amin.out", ORDERED, "<", all_if_empty=True),
        extreme("max max.unary_out", ORDERED, ">"),
        extreme("min min.unary_out", ORDERED, "<"),
        location("argmax argmax.out", REALS, ">", ["index"]),
        location("argmin argmin.out", REALS, "<", ["index"]),
        location("max.dim max.dim_max", ORDERED, ">", ["best", "index"]),
        location("min.dim min.dim_min", ORDERED, "<", ["best", "index"]),
        *(truth(name, ORDERED, "({} != C(0))") for name in ("any", "all")),
        *(truth(name, COMPLEX, "({0}.x != 0 || {0}.y != 0)") for name in ("any", "all")),
        reduction(
            "count_nonzero.dim_IntList count_nonzero.dim_IntList_out",
            ORDERED,
            {"count": counted},
            ["count"],
            indices=[True],
            all_if_empty=True,
            empty=0,
        ),
        reduction(
            "aminmax aminmax.out",
            ORDERED,
            {**_best("low", "<"), **_best("high", ">")},
            ["low", "high"],
        ),
        spread("var.correction var.correction_out", [variance]),
        spread("std.correction std.correction_out", [f"sqrt{variance}"]),
        spread("var_mean.correction var_mean.correction_out", [variance, "mean"]),
        spread("std_mean.correction std_mean.correction_out", [f"sqrt{variance}", "mean"]),
        *norms(),
    ]


def _norms_one_by_one(
    self: list[torch.Tensor], ord: float, dtype: torch.dtype | None
) -> list[torch.Tensor]:
    """Norms of other orders, and of lists with several dtypes."""
    require(all(x.numel() > 0 for x in self))
    return [torch.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


@dataclass(kw_only=True, eq=False, repr=False)
class ListNorms(Definition):
    """Norms of the tensors of a list (csrc/device_kernels/reduction/list_norms.cpp)."""

    kind: ClassVar[str] = "list_norms"
    dtypes: int


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


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    # Operators over complex values, by those over real ones.
    spreads: dict[str, Callable[..., Any]] = {
        "var.correction var.correction_out": _variance,
        "std.correction std.correction_out": _deviation,
        "var_mean.correction var_mean.correction_out": _and_mean(_variance),
        "std_mean.correction std_mean.correction_out": _and_mean(_deviation),
    }
    return [
        definition_of(
            ListNorms,
            "_foreach_norm.Scalar",
            dtypes=dtype_bits(FLOATS),
            location=caller_location(),
            condition=lambda dtype, ord: ~given(dtype) & has_other_dtype(ord, torch.bool),
        ),
        decomposition(
            "_foreach_norm.Scalar",
            _norms_one_by_one,
            condition=lambda ord: has_other_dtype(ord, torch.bool),
        ),
        *_reductions(),
        # `dtype` is the elements' dtype; PyTorch raises if it is not complex.
        decomposition(
            NORM,
            _complex_norm,
            dtypes=COMPLEX,
            condition=lambda dtype: has_dtype(dtype, *COMPLEX),
        ),
        *(decomposition(overloads, body, dtypes=COMPLEX) for overloads, body in spreads.items()),
    ]
