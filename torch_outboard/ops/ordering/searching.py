"""Searching in sorted values, counting, and sets of values."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import BOOL, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

REAL = (*FLOATS, *INTEGERS)
FAMILY: dict[str, Any] = {"family": "sorting"}


def searches() -> list[Row]:
    """Places in sorted lines; a row per dtype of the result."""
    rows = []
    for flag, dtype in (("False", "int64"), ("True", "int32")):
        common: dict[str, Any] = {
            "dtypes": REAL,
            "requires": {"out_int32": flag},
            **FAMILY,
        }
        search = Launch("searchsorted", "numel(out)")
        rows += [
            templated(
                "searchsorted.Tensor searchsorted.Tensor_out",
                "searchsorted",
                [Launch("check_sorter", "numel(sorter)"), search] if sorted_by else search,
                operands=f"sorted_sequence self{sorted_by}",
                accepts={"sorter": "int64"} if sorted_by else {},
                results=Result("out", "sizes(self)", dtype),
                reports="RuntimeError: sorter index out of range" if sorted_by else "",
                conditions=[
                    "given(sorter)" if sorted_by else "!given(sorter)",
                    "dims(sorted_sequence) > 0",
                    "dims(sorted_sequence) == 1 || "
                    "sizes(sorted_sequence)[0:-1] == sizes(self)[0:-1]",
                    "dims(sorted_sequence) == 1 || dims(sorted_sequence) == dims(self)",
                    'given(side) ? side == "right" || (side == "left" && !right) : 1',
                    "given(sorter) ? sizes(sorter) == sizes(sorted_sequence) : 1",
                ],
                numbers={
                    "n": "size(sorted_sequence, -1)",
                    "per_line": "dims(sorted_sequence) == 1 ? max(numel(self), 1) : "
                    "max(size(self, -1), 1)",
                },
                constants={"RIGHT": 'right || (given(side) ? side == "right" : 0)'},
                **common,
            )
            for sorted_by in ("", " sorter")
        ]
        rows += [
            templated(
                "bucketize.Tensor bucketize.Tensor_out",
                "searchsorted",
                Launch("searchsorted", "numel(out)"),
                operands="boundaries self",
                results=Result("out", "sizes(self)", dtype),
                conditions=["dims(boundaries) == 1"],
                numbers={"n": "numel(boundaries)", "per_line": "max(numel(self), 1)"},
                constants={"RIGHT": "right"},
                **common,
            ),
        ]
    scalar = """
        x = torch.scalar_tensor(self, dtype=torch.result_type({0}, self), device={0}.device)
        return torch.{1}
    """
    return [
        *rows,
        composed(
            "searchsorted.Scalar searchsorted.Scalar_out",
            scalar.format(
                "sorted_sequence",
                "searchsorted(sorted_sequence.to(x.dtype), x, out_int32=out_int32, right=right, "
                "side=side, sorter=sorter)",
            ),
            dtypes=REAL,
            conditions=["dims(sorted_sequence) == 1"],
            **FAMILY,
        ),
        composed(
            "bucketize.Scalar bucketize.Scalar_out",
            scalar.format(
                "boundaries",
                "bucketize(x, boundaries.to(x.dtype), out_int32=out_int32, right=right)",
            ),
            dtypes=REAL,
            conditions=["dims(boundaries) == 1"],
            **FAMILY,
        ),
    ]


# Sorted values with where they were, and a flag where a new value starts.
UNIQUE = """
def groups(first: Tensor) -> Tuple[Tensor, Tensor]:
    # Of flags of the first elements of groups: number of the group of each, places of the first.
    return first.cumsum(0) - 1, first.nonzero().reshape(-1)

def lengths(starts: Tensor, n: int) -> Tensor:
    end = torch.full([1], n, dtype=torch.int64, device=starts.device)
    return torch.cat([starts[1:], end]) - starts if starts.numel() > 0 else starts

def firsts(x: Tensor) -> Tensor:
    # Of rows: whether each differs from the one before.
    first = torch.ones([x.size(0)], dtype=torch.bool, device=x.device)
    if x.size(0) > 1:
        differs = x[1:] != x[:-1]
        if x.dim() > 1:
            differs = differs.reshape(x.size(0) - 1, -1).any(1)
        first[1:] = differs
    return first

def nothing(x: Tensor) -> Tensor:
    return torch.empty([0], dtype=torch.int64, device=x.device)

def unique(x: Tensor, inverse: bool, counts: bool) -> Tuple[Tensor, Tensor, Tensor]:
    flat = x.reshape(-1)
    n = flat.numel()
    ordered, places = torch.sort(flat, stable=True, dim=0, descending=False)
    group, starts = groups(firsts(ordered))
    values = ordered.index_select(0, starts)
    back = nothing(x)
    if inverse:
        back = torch.empty_like(group).scatter_(0, places, group).reshape(x.shape)
    number = lengths(starts, n) if counts else nothing(x)
    return values, back, number

def consecutive(rows: Tensor, inverse: bool, counts: bool) -> Tuple[Tensor, Tensor, Tensor]:
    group, starts = groups(firsts(rows))
    number = lengths(starts, rows.size(0)) if counts else nothing(rows)
    return rows.index_select(0, starts), group if inverse else nothing(rows), number
"""


def sets() -> list[Row]:
    """Different values, and membership."""
    dtypes = (*REAL, *BOOL)
    common: dict[str, Any] = {"helpers": UNIQUE, "dtypes": dtypes, **FAMILY}
    return [
        composed(
            "_unique2",
            "return unique(self, return_inverse, return_counts)",
            **common,
        ),
        composed(
            "_unique",
            "values, inverse, counts = unique(self, return_inverse, False)\nreturn values, inverse",
            **common,
        ),
        composed(
            "unique_consecutive",
            """
            values, inverse, counts = consecutive(self.reshape(-1), return_inverse, return_counts)
            if return_inverse:
                inverse = inverse.reshape(self.shape)
            return values, inverse, counts
            """,
            conditions=["!given(dim)"],
            **common,
        ),
        composed(
            "unique_consecutive",
            """
            assert dim is not None
            return torch.unique_dim_consecutive(self, dim, return_inverse, return_counts)
            """,
            conditions=["given(dim)"],
            **common,
        ),
        composed(
            "unique_dim_consecutive",
            """
            d = dim if dim >= 0 else dim + self.dim()
            rows = self.movedim(d, 0).contiguous()
            values, inverse, counts = consecutive(rows, return_inverse, return_counts)
            return values.movedim(0, d), inverse, counts
            """,
            conditions=["numel(self) > 0", "-dims(self) <= dim && dim < dims(self)"],
            **common,
        ),
        composed(
            "unique_dim",
            """
            d = dim if dim >= 0 else dim + self.dim()
            rows = self.movedim(d, 0)
            shape = rows.shape
            flat = rows.reshape(rows.size(0), -1)
            # By the last column first: each sort keeps the order of the ones before.
            order = torch.arange(flat.size(0), device=self.device)
            for k in range(flat.size(1)):
                column = flat.select(1, flat.size(1) - 1 - k).index_select(0, order)
                order = order.index_select(0, torch.sort(column, stable=True, dim=0)[1])
            values, group, counts = consecutive(flat.index_select(0, order), True, return_counts)
            inverse = nothing(self)
            if return_inverse:
                inverse = torch.empty_like(group).scatter_(0, order, group)
            shape[0] = values.size(0)
            return values.reshape(shape).movedim(0, d), inverse, counts
            """,
            # Sorts once per column.
            conditions=[
                "numel(self) > 0",
                "-dims(self) <= dim && dim < dims(self)",
                "numel(self) // size(self, dim) <= 4096",
            ],
            **common,
        ),
        *(
            composed(
                name,
                "return self.clone(), nothing(self), nothing(self)",
                conditions=["size(self, dim) == 0 && prod(drop(sizes(self), dim)) > 0"],
                **common,
            )
            for name in ("unique_dim", "unique_dim_consecutive")
        ),
        composed(
            "isin.Tensor_Tensor isin.Tensor_Tensor_out",
            """
            if test_elements.numel() == 0:
                return torch.full(elements.shape, invert, dtype=torch.bool, device=elements.device)
            dtype = torch.result_type(elements, test_elements)
            ordered = torch.sort(test_elements.reshape(-1).to(dtype), stable=True, dim=0)[0]
            x = elements.to(dtype)
            places = torch.searchsorted(ordered, x).clamp(max=ordered.numel() - 1)
            found = ordered.index_select(0, places.reshape(-1)).reshape(x.shape) == x
            return found.logical_not() if invert else found
            """,
            dtypes=REAL,
            requires={"elements": "dtype not bool", "test_elements": "dtype not bool"},
            **FAMILY,
        ),
        composed(
            "isin.Tensor_Scalar isin.Tensor_Scalar_out",
            "return elements != test_element if invert else elements == test_element",
            dtypes=REAL,
            **FAMILY,
        ),
    ]


# Of bins between edges, the last one with both.
HISTOGRAM = """
def histogram(
    self: Tensor, edges: Tensor, weight: Optional[Tensor], density: bool
) -> Tuple[Tensor, Tensor]:
    x = self.reshape(-1)
    n = edges.numel() - 1
    places = torch.where(x == edges[n], n - 1, torch.bucketize(x, edges, right=True) - 1)
    inside = torch.logical_and(places >= 0, places < n)
    amounts = inside.to(x.dtype)
    if weight is not None:
        amounts = torch.where(inside, weight.reshape(-1), 0)
    hist = torch.zeros([n], dtype=x.dtype, device=x.device)
    hist.scatter_add_(0, torch.where(inside, places, 0), amounts)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return hist, edges
"""


def counts() -> list[Row]:
    """Histograms."""
    return [
        composed(
            "bincount",
            """
            n = minlength
            if self.numel() > 0:
                assert int(self.min().item()) >= 0
                n = max(n, int(self.max().item()) + 1)
            if weights is None:
                one = torch.ones_like(self, dtype=torch.int64)
                out = torch.zeros([n], dtype=torch.int64, device=self.device)
                return out.scatter_add_(0, self.to(torch.int64), one)
            else:
                dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
                out = torch.zeros([n], dtype=dtype, device=self.device)
                return out.scatter_add_(0, self.to(torch.int64), weights.to(dtype))
            """,
            dtypes=INTEGERS,
            conditions=[
                "dims(self) == 1",
                "minlength >= 0",
                "given(weights) ? sizes(weights) == sizes(self) : 1",
            ],
            **FAMILY,
        ),
        composed(
            "histc histc.out",
            """
            x = self.reshape(-1)
            low = float(min)
            high = float(max)
            if low == high and x.numel() > 0:
                low = float(x.amin().item())
                high = float(x.amax().item())
            if low == high:
                low -= 1
                high += 1
            out = torch.zeros([bins], dtype=self.dtype, device=self.device)
            places = ((x - low) * bins / (high - low)).to(torch.int64).clamp(0, bins - 1)
            inside = torch.logical_and(x >= low, x <= high)
            return out.scatter_add_(0, torch.where(inside, places, 0), inside.to(self.dtype))
            """,
            dtypes=FLOATS,
            conditions=["bins > 0", "min <= max"],
            **FAMILY,
        ),
        composed(
            "histogram.bin_ct histogram.bin_ct_out",
            """
            low = 0.0
            high = 1.0
            if range is not None:
                low = range[0]
                high = range[1]
            elif self.numel() > 0:
                low = float(self.amin().item())
                high = float(self.amax().item())
            assert low <= high
            if low == high:
                low -= 0.5
                high += 0.5
            edges = torch.linspace(low, high, bins + 1, dtype=self.dtype, device=self.device)
            return histogram(self, edges, weight, density)
            """,
            helpers=HISTOGRAM,
            dtypes=(torch.float32, torch.float64),
            requires={"weight": "dtype of self"},
            conditions=[
                "bins > 0",
                "given(range) ? len(range) == 2 : 1",
                "given(weight) ? sizes(weight) == sizes(self) : 1",
            ],
            **FAMILY,
        ),
        composed(
            "histogram.bins_tensor histogram.bins_tensor_out",
            "return histogram(self, bins.clone(), weight, density)",
            helpers=HISTOGRAM,
            dtypes=FLOATS,
            requires={"bins": "dtype of self", "weight": "dtype of self"},
            conditions=[
                "dims(bins) == 1 && numel(bins) > 1",
                "given(weight) ? sizes(weight) == sizes(self) : 1",
            ],
            **FAMILY,
        ),
        composed(
            "count_nonzero.dim_IntList",
            "return (self != 0).sum(dim, dtype=torch.int64)",
            dtypes=EVERY,
            **FAMILY,
        ),
        composed(
            "equal",
            """
            if self.shape != other.shape:
                return False
            if self.numel() == 0:
                return True
            return bool((self == other).all().item())
            """,
            dtypes=EVERY,
            **FAMILY,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [*searches(), *sets(), *counts()]
