"""Advanced indexing: `x[i]`, `x[:, i, j]`, `x[mask]` and what is written there.

A single index tensor has kernels of its own; anything else is put together from operators on flat
places.
"""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.composed import composed
from torch_outboard.ops.indexing.gather_scatter import SELECT
from torch_outboard.ops.row import COMPLEX, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

INDEX_HELPERS = """
def index_dims(self: Tensor, indices: List[Optional[Tensor]]) -> Tuple[List[Tensor], List[int]]:
    tensors: List[Tensor] = []
    dims: List[int] = []
    d = 0
    for k in range(len(indices)):
        index = indices[k]
        if index is not None:
            index = index.to(self.device)
        if index is None:
            d += 1
        elif index.dtype == torch.bool or index.dtype == torch.uint8:
            for j in range(index.dim()):
                assert index.size(j) == self.size(d + j)
            places = index.nonzero()
            for j in range(index.dim()):
                tensors.append(places.select(1, j))
                dims.append(d)
                d += 1
        else:
            tensors.append(index)
            dims.append(d)
            d += 1
    return torch.broadcast_tensors(tensors), dims

def flat_places(self: Tensor, tensors: List[Tensor], dims: List[int]) -> Tensor:
    total = tensors[0]
    for k in range(len(dims)):
        n = self.size(dims[k])
        index = tensors[k]
        place = torch.where(index < 0, index + n, index)
        if k == 0:
            total = place
        else:
            # What is out of range stays so.
            inside = torch.logical_and(place >= 0, place < n)
            total = torch.where(torch.logical_and(inside, total >= 0), total * n + place, -1)
            if k == 1:
                total = torch.where(tensors[0] < self.size(dims[0]), total, -1)
    return total.reshape(-1)

def front(self: Tensor, dims: List[int]) -> List[int]:
    order = dims[:]
    for d in range(self.dim()):
        if d not in dims:
            order.append(d)
    return order

def only_mask(self: Tensor, indices: List[Optional[Tensor]]) -> Optional[Tensor]:
    # The mask that alone says what is indexed, with the dimensions of self.
    found: Optional[Tensor] = None
    before = 0
    for k in range(len(indices)):
        index = indices[k]
        if index is None:
            if found is None:
                before += 1
        elif found is not None or index.dtype != torch.bool:
            return None
        else:
            found = index
    if found is None:
        return None
    for j in range(found.dim()):
        assert found.size(j) == self.size(before + j)
    after = self.dim() - before - found.dim()
    return found.to(self.device).reshape([1] * before + found.shape + [1] * after)

def moved(x: Tensor, dims: List[int], first: int, to_front: bool) -> Tensor:
    # Whether results have the dimensions of the index at the front or where `dims` were.
    if dims[-1] - dims[0] + 1 != len(dims):
        return x
    here = [0][:0]
    there = [0][:0]
    for k in range(first):
        here.append(k)
        there.append(k + dims[0])
    return x.movedim(there, here) if to_front else x.movedim(here, there)
"""

# Where the only index tensor stands, and what it selects. Later dimensions are not mentioned.
SINGLE_INDEX = {
    "d": "len(indices) - 1",
    "n": "size(self, d)",
    "selected": "sizes(self)[:d] + sizes(index) + sizes(self)[d + 1:]",
    "after": "prod(sizes(self)[d + 1:])",
}
SINGLE_CONDITIONS = ["sum(indices) == 1", "n > 0 || numel(index) == 0"]
INDEX_DTYPES = {"index": "int32 int64"}  # uint8 would be a mask
# How many places a work item of index_put takes one after the other. Sums are always in order.
IN_ORDER = "max(numel(index), 1)"
BLOCK = f"deterministic ? {IN_ORDER} : 4096"
BLOCKS = "prod(sizes(self)[:d]) * ((numel(index) + block - 1) // block)"


def put(accumulate: bool) -> Row:
    """Values, or a single one, at the places of one index tensor."""
    return templated(
        "_index_put_impl_",
        "index_put",
        [
            Launch("index_put", f"after == 0 ? 0 : {BLOCKS}", when="after < 32"),
            Launch(
                "index_put_slices",
                f"{BLOCKS} * ((after + 255) // 256)",  # OB_SLICE
                groups=True,
                when="after >= 32",
            ),
        ],
        dtypes=(*FLOATS, *INTEGERS, *COMPLEX) if accumulate else EVERY,
        operands="self index=indices[-1] values",
        accepts=INDEX_DTYPES,
        results=Result("out", initial="self"),
        let=SINGLE_INDEX | {"block": IN_ORDER if accumulate else BLOCK},
        conditions=[
            *SINGLE_CONDITIONS,
            "accumulate" if accumulate else "!accumulate",
            "numel(values) == 1 || sizes(values) == selected",
        ],
        numbers={
            "n": "n",
            "count": "numel(index)",
            "after": "after",
            "block": "block",
            "single_value": "numel(values) == 1",
        },
        constants={"ACCUMULATE": str(int(accumulate))},
        items_of="" if accumulate else "self values out",
        reports="IndexError",
        family="indexing",
    )


def by_single_index() -> list[Row]:
    """Operators with one index tensor and nothing for the dimensions before it."""
    return [
        templated(
            "index.Tensor index.Tensor_out _unsafe_index.Tensor",
            "index_select",
            SELECT,
            dtypes=EVERY,
            operands="self index=indices[-1]",
            accepts=INDEX_DTYPES,
            results=Result("out", "selected"),
            let=SINGLE_INDEX,
            conditions=SINGLE_CONDITIONS,
            numbers={"n": "n", "count": "numel(index)", "after": "after"},
            constants={"WRAP": "1"},
            items_of="self out",
            reports="IndexError",
            family="indexing",
        ),
        put(accumulate=False),
        put(accumulate=True),
    ]


def by_lists() -> list[Row]:
    """Operators with one index tensor, mask or nothing per dimension."""
    common: dict[str, Any] = {"helpers": INDEX_HELPERS, "cpu_arguments": True, "family": "indexing"}
    return [
        composed(
            "index.Tensor index.Tensor_out _unsafe_index.Tensor",
            """
            tensors, dims = index_dims(self, indices)
            shape = tensors[0].shape
            ordered = self.permute(front(self, dims))
            rest = ordered.shape[len(dims):]
            places = flat_places(self, tensors, dims)
            selected = ordered.flatten(0, len(dims) - 1).index_select(0, places)
            return moved(selected.reshape(shape + rest), dims, len(shape), False).contiguous()
            """,
            **common,
        ),
        composed(
            "_index_put_impl_",
            """
            assert values.dtype == self.dtype
            if values.numel() == 1 and not accumulate:
                mask = only_mask(self, indices)
                if mask is not None:
                    return self.masked_fill_(mask, values.to(self.device).reshape([]))
            tensors, dims = index_dims(self, indices)
            shape = tensors[0].shape
            ordered = self.permute(front(self, dims))
            rest = ordered.shape[len(dims):]
            places = flat_places(self, tensors, dims)
            if places.numel() == 0 or self.numel() == 0:
                return self
            full = moved(places.new_empty([1]).expand(shape + rest), dims, len(shape), False)
            what = moved(values.to(self.device).expand(full.shape), dims, len(shape), True)
            what = what.reshape([places.numel()] + rest)
            where = places.reshape([-1] + [1] * len(rest)).expand(what.shape)
            # In place where the indexed dimensions are one in memory as well.
            into = ordered.flatten(0, len(dims) - 1)
            if accumulate:
                into.scatter_add_(0, where, what)
            else:
                into.scatter_(0, where, what)
            if len(dims) > 1 and not ordered.is_contiguous():
                ordered.copy_(into.reshape(ordered.shape))
            return self
            """,
            **common,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [*by_single_index(), *by_lists()]
