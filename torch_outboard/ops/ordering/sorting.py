"""Sorting, and what follows from sorted values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import BOOL, FLOATS, INTEGERS, Row, template
from torch_outboard.ops.template import Launch, Result, templated

REAL = (*FLOATS, *INTEGERS, *BOOL)
RUN = 16  # OB_RUN in sort.cl, on a processor
EACH = 8  # OB_EACH there: of a work item of a GPU, where a run is what a group sorts
MERGE_SORT = ("template", "order", "sort")

# What sorting needs.
SORTED = [
    Result("one", "direct ? 1 : numel(self)"),
    Result("two", "passes > 0 ? numel(self) : 1"),
    Result("one_places", "direct ? 1 : numel(self)", "int32"),
    Result("two_places", "passes > 0 ? numel(self) : 1", "int32"),
]
MERGED: dict[str, Any] = {
    "d": "wrap(dim, dims(self))",
    "n": "size(self, d)",
    "lines": "numel(self) // max(n, 1)",
    "run": f"group_lanes == 1 ? {RUN} : {EACH} * group_lanes",
    "runs": "(n + run - 1) // run",
    "passes": "log2_ceil(runs)",
    # A group sorts a run, or several lines that are no longer than one.
    "lines_of_group": (f"runs > 1 ? 1 : max(group_lanes // max((n + {EACH - 1}) // {EACH}, 1), 1)"),
    "groups": "(lines * runs + lines_of_group - 1) // lines_of_group",
    "items": "group_lanes == 1 ? lines * runs : groups * group_lanes",
}
MERGE_NUMBERS = {
    "dim": "d",
    "n": "n",
    "lines": "lines",
    "runs": "runs",
    "passes": "passes",
    "self_stride": "stride(self, d)",
}


def sort() -> Row:
    """Stable sort along a dimension."""
    row = templated(
        "sort.stable sort.values_stable",
        "sort",
        [
            Launch("sort_runs", "items"),
            Launch("merge_runs", "items", repeat="passes"),
            Launch("write_sorted", "numel(self)", when="!direct"),
        ],
        dtypes=REAL,
        results=[Result("values"), Result("indices")],
        temporaries=SORTED,
        let=MERGED | {"direct": "group_lanes > 1 && runs == 1"},
        conditions=["n < 2147483648"],
        numbers={
            **MERGE_NUMBERS,
            "values_stride": "stride(values, d)",
            "indices_stride": "stride(indices, d)",
        },
        constants={"DESCENDING": "descending", "DIRECT": "direct"},
        strided="self values indices",
        meta="aten::sort.stable",
        family="sorting",
    )
    return row | {"source": "".join(map(template, (*MERGE_SORT, "write_sorted")))}


def mode() -> Row:
    """The most frequent value along a dimension."""
    sizes = "keepdim ? set(sizes(self), d, 1) : drop(sizes(self), d)"
    row = templated(
        "mode mode.values",
        "sort",
        [
            Launch("sort_runs", "items"),
            Launch("merge_runs", "items", repeat="passes"),
            Launch("mode", "lines"),
        ],
        dtypes=REAL,
        results=[Result("values", sizes), Result("indices", sizes, "int64")],
        temporaries=SORTED,
        let=MERGED | {"direct": "0"},
        conditions=["dims(self) > 0", "n > 0", "n < 2147483648"],
        numbers=MERGE_NUMBERS,
        constants={"DESCENDING": "0", "DIRECT": "0"},
        strided="self",
        family="sorting",
    )
    return row | {"source": "".join(map(template, (*MERGE_SORT, "mode")))}


def topk() -> Row:
    """The first few elements in sorted order along a dimension."""
    lists = "lines * blocks * k"
    return templated(
        "topk topk.values",
        "order select_first",
        [
            Launch(
                "select_in_blocks",
                "(lines * blocks + group_lanes - 1) // group_lanes",
                groups=True,
            ),
            Launch("merge_blocks", "lines"),
        ],
        dtypes=(*FLOATS, *INTEGERS),
        results=[Result("values"), Result("indices")],
        temporaries=[Result("keys", lists), Result("places", lists, "int32")],
        let={
            "d": "wrap(dim, dims(self))",
            "n": "size(self, d)",
            "lines": "numel(self) // max(n, 1)",
            # Blocks much longer than lists, and no more than the device needs to be busy.
            "items": "group_lanes == 1 ? 64 : 4096",
            # Longer lists are slower than sorting, and do not fit the registers of a GPU.
            "most": "group_lanes == 1 && n >= 4 * k ? 512 : 64",
            "blocks": "max(1, min(n // max(1024, 16 * k), items // max(lines, 1)))",
        },
        conditions=["dims(self) > 0", "0 < k && k <= most", "n < 2147483648"],
        numbers={
            "dim": "d",
            "n": "n",
            "k": "k",
            "lines": "lines",
            "blocks": "blocks",
            "block": "(n + blocks - 1) // blocks",
            "self_stride": "stride(self, d)",
            "values_stride": "stride(values, d)",
            "indices_stride": "stride(indices, d)",
        },
        constants={"DESCENDING": "largest", "OB_MOST": "k <= 64 ? 64 : 512"},
        strided="self values indices",
        meta="aten::topk",
        family="selection",
    )


NUMBERS = (*FLOATS, *INTEGERS)


def ranks() -> list[Row]:
    """Elements by their rank, in lines of a tensor that has some."""
    sizes = "keepdim ? set(sizes(self), d, 1) : drop(sizes(self), d)"
    return [
        templated(
            overloads,
            "places_in_order select_rank",
            Launch("select_rank", "lines", groups=True),
            dtypes=NUMBERS,
            results=[Result("values", sizes), Result("indices", sizes, "int64")],
            let={
                "d": "wrap(dim, dims(self))",
                "n": "size(self, d)",
                "lines": "numel(self) // max(n, 1)",
            },
            conditions=[
                "dims(self) > 0",
                "-dims(self) <= dim && dim < dims(self)",
                "0 < n && n < 2147483648",
                *conditions,
            ],
            numbers={"dim": "d", "n": "n", "rank": rank, "self_stride": "stride(self, d)"},
            constants={"MODE": mode},
            strided="self",
            family="selection",
        )
        for overloads, mode, rank, conditions in (
            ("kthvalue kthvalue.values", "0", "k - 1", ["0 < k && k <= n"]),
            ("median.dim median.dim_values", "1", "0", []),
            ("nanmedian.dim nanmedian.dim_values", "2", "0", []),
        )
    ]


def _at_least_1d(x: Tensor) -> Tensor:
    # A line along a dimension of a tensor that may have none.
    return x.reshape(1) if x.dim() == 0 else x


def _pick(x: Tensor, like: Tensor, dim: int, place: int, keepdim: bool) -> Tensor:
    if like.dim() == 0:
        return x.reshape([])
    if keepdim:
        return x.narrow(dim, place, 1).contiguous()
    return x.select(dim, place).contiguous()


def _pick_each(x: Tensor, like: Tensor, dim: int, places: Tensor, keepdim: bool) -> Tensor:
    picked = x.gather(dim, places)
    if like.dim() == 0:
        return picked.reshape([])
    return picked if keepdim else picked.squeeze(dim)


def _topk(self: Tensor, k: int, dim: int, largest: bool, values: Tensor, indices: Tensor) -> None:
    if self.dim() == 0:
        values.copy_(self)
        indices.zero_()
    else:
        ordered, places = torch.sort(self, stable=True, dim=dim, descending=largest)
        values.copy_(ordered.narrow(dim, 0, k))
        indices.copy_(places.narrow(dim, 0, k))


def _mode_of_number(self: Tensor) -> tuple[Tensor, Tensor]:
    return self.clone(), torch.zeros_like(self, dtype=torch.int64)


def _kthvalue(self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(_at_least_1d(self), stable=True, dim=dim)
    return _pick(values, self, dim, k - 1, keepdim), _pick(indices, self, dim, k - 1, keepdim)


def _median(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    x = _at_least_1d(self)
    n = x.size(dim)
    values, indices = torch.sort(x, stable=True, dim=dim)
    # NaN is the largest value, and the first one is the median of a line that has any.
    nans = (values != values).sum([dim], True)
    places = torch.where(nans > 0, n - nans, (n - 1) // 2)
    return (
        _pick_each(values, self, dim, places, keepdim),
        _pick_each(indices, self, dim, places, keepdim),
    )


def _nanmedian(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    x = _at_least_1d(self)
    values, indices = torch.sort(x, stable=True, dim=dim)
    nans = (values != values).sum([dim], True)
    places = torch.clamp((x.size(dim) - 1 - nans) >> 1, 0)
    return (
        _pick_each(values, self, dim, places, keepdim),
        _pick_each(indices, self, dim, places, keepdim),
    )


def selections() -> list[Row]:
    """Elements by their rank."""
    common: dict[str, Any] = {"dtypes": NUMBERS, "family": "selection"}
    in_range = "-max(dims(self), 1) <= dim && dim < max(dims(self), 1)"
    return [
        composed(
            "topk topk.values",
            _topk,
            results="values indices",
            meta="aten::topk",
            conditions=["dims(self) > 0 || k == 1"],
            **common,
        ),
        composed(
            "mode",
            _mode_of_number,
            dtypes=REAL,
            conditions=["dims(self) == 0 && -1 <= dim && dim < 1"],
            family="sorting",
        ),
        composed(
            "kthvalue kthvalue.values",
            _kthvalue,
            conditions=[in_range, "k > 0", "k <= size(self, dim)"],
            **common,
        ),
        *(
            composed(
                f"{name}.dim {name}.dim_values",
                body,
                conditions=[in_range, "size(self, dim) > 0"],
                **common,
            )
            for name, body in (("median", _median), ("nanmedian", _nanmedian))
        ),
        composed(
            "median median.out",
            lambda self: torch.median(self.reshape(-1), 0, False)[0],
            conditions=["numel(self) > 0"],
            **common,
        ),
        composed(
            "nanmedian nanmedian.out",
            lambda self: torch.nanmedian(self.reshape(-1), 0, False)[0],
            conditions=["numel(self) > 0"],
            **common,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [
        sort(),
        mode(),
        topk(),
        *ranks(),
        *selections(),
    ]
