"""Reductions of segments."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

_KINDS = ("sum", "mean", "max", "min", "prod")


def _row(overloads: str, operands: str, out: Result, *, backward: bool) -> Row:
    kind = "-1"
    for number, name in reversed(list(enumerate(_KINDS))):
        kind = f'(reduce == "{name}" ? {number} : {kind})'
    # Lengths that are to be checked are read by the host.
    checked = ["given(offsets) || unsafe", "!given(indices)"] if not backward else []
    return templated(
        overloads,
        "segments",
        [
            Launch("bounds", "prod(sizes(bounded)[0:d])", when="given(lengths)"),
            Launch("reduce", "prod(reduced)"),
        ],
        dtypes=FLOATS,
        operands=f"{operands} lengths? offsets?",
        accepts={"lengths": "int32 int64", "offsets": "int32 int64"},
        results=out,
        temporaries=[
            Result(
                "places",
                sizes="given(lengths) ? prod(sizes(bounded)[0:d]) * (count + 1) : 1",
                dtype="int64",
            )
        ],
        let={
            "d": "wrap(axis, dims(data))",
            "bounded": "either(lengths, offsets)",
            "count": "size(bounded, -1) - (given(lengths) ? 0 : 1)",
            "reduced": "sizes(data)[0:d] + [count] + sizes(data)[d + 1:]",
        },
        numbers={
            "segments": "count",
            "length": "size(data, d)",
            "inner": "prod(sizes(data)[d + 1:])",
        },
        reals={"initial": "either(initial, 0)"},
        constants={
            "KIND": kind,
            "GIVEN": "given(initial)",
            "BACKWARD": "1" if backward else "0",
        },
        conditions=[
            "given(lengths) != given(offsets)",
            "dims(data) > 0",
            "dims(bounded) == d + 1",
            "sizes(data)[0:d] == sizes(bounded)[0:d]",
            "count >= 0",
            f"{kind} >= 0",
            *checked,
            *(["sizes(grad) == reduced", "sizes(output) == reduced"] if backward else []),
        ],
        family="reduction",
    )


def _checked(
    data: Tensor, reduce: str, lengths: Tensor, axis: int, initial: float | None
) -> Tensor:
    require(lengths.numel() > 0 and bool((lengths.min() >= 0).item()))
    require(bool((lengths.sum(-1) == data.size(axis)).all().item()))
    return torch.segment_reduce(
        data, reduce, lengths=lengths, axis=axis, unsafe=True, initial=initial
    )


def rows() -> list[Row]:
    """Every row."""
    return [
        _row(
            "segment_reduce segment_reduce.out",
            "data",
            Result("out", sizes="reduced"),
            backward=False,
        ),
        # Lengths that are to be checked are looked at first.
        composed(
            "segment_reduce segment_reduce.out",
            _checked,
            dtypes=FLOATS,
            conditions=["given(lengths) && !given(offsets) && !given(indices) && !unsafe"],
            family="reduction",
        ),
        _row(
            "_segment_reduce_backward _segment_reduce_backward.out",
            "data grad output",
            Result("out", sizes="sizes(data)", initial="0"),
            backward=True,
        ),
    ]
