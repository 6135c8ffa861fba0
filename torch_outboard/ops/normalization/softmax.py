"""Softmax, its logarithm, and the gradients of both; softmax of what a mask leaves."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_outboard.ops.composed import composed, require
from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated


def rows() -> list[Row]:
    """Every row."""
    return [
        *(
            _softmax(log, forward, last)
            for log in (False, True)
            for forward in (True, False)
            for last in (True, False)
        ),
        *_masked_softmax(),
    ]


def _softmax(log: bool, forward: bool, last: bool) -> Row:
    """Over the last dimension (or all behind it of size 1), or over another one."""
    name = "_log_softmax" if log else "_softmax"
    if not forward:
        name += "_backward_data"
    first = "self" if forward else "grad_output"
    launch = (
        Launch("softmax", f"numel({first}) // n", groups=True)
        if last
        else Launch("softmax", f"numel({first}) // (n * inner) * ((inner + 7) // 8)")
    )
    return templated(
        f"{name} {name}.out",
        "exponential rows softmax_rows" if last else "exponential softmax_columns",
        launch,
        dtypes=FLOATS,
        operands="self" if forward else "grad_output output",
        results=Result("out" if forward else "grad"),
        let={
            "d": f"wrap(dim, dims({first}))",
            "n": f"size({first}, d)",
            "inner": f"prod(sizes({first})[d + 1:])",
        },
        conditions=[
            "inner == 1" if last else "inner != 1",
            *([] if forward else ["sizes(output) == sizes(grad_output)"]),
        ],
        numbers={"n": "n", "inner": "inner"},
        constants={"LOG": str(int(log)), "FORWARD": str(int(forward))}
        | ({"HELD": _HELD} if last and forward else {}),
        meta=f"aten::{name}",
        vectors=True,
        requires={"half_to_float": "False"} if forward else {"input_dtype": "dtype of grad_output"},
        family="softmax",
    )


# How many elements of a row a work item of a GPU keeps, or 0.
_HELD = "group_lanes > 1 && n % 16 == 0 && n <= 16 * group_lanes ? 16 : 0"


# Kinds of masks: of pairs of places, of (sample, place), and of all elements.
_PAIRS, _PLACES, _ELEMENTS = 0, 1, 2


def _masked_softmax_body(
    self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None
) -> Tensor:
    require(mask.dtype == torch.bool)
    if mask.dim() == 2 and self.dim() == 4:
        if mask_type == _PAIRS:
            mask = mask.unsqueeze(0).unsqueeze(0)
        elif mask_type == _PLACES:
            mask = mask.unsqueeze(1).unsqueeze(1)
    scores = self.masked_fill(mask, float("-inf"))
    result = torch._softmax(scores, -1 if dim is None else dim, False)
    like = torch.empty_like(self)
    return result if result.stride() == like.stride() else like.copy_(result)


def _masked_softmax_backward_body(
    grad_output: Tensor, output: Tensor, mask: Tensor, dim: int | None
) -> Tensor:
    require(mask.dtype == torch.bool)
    left = output.masked_fill(mask, 0.0)
    grad = grad_output.masked_fill(mask, 0.0)
    grad = torch._softmax_backward_data(grad, left, -1 if dim is None else dim, output.dtype)
    return grad.masked_fill_(mask, 0.0)


def _masked_softmax() -> list[Row]:
    """Softmax without the elements where a mask is True, whose results are 0."""
    flat = "(dims(mask) == 2 && dims(self) == 4)"
    length = "size(self, 2)"
    return [
        composed(
            "_masked_softmax",
            _masked_softmax_body,
            dtypes=FLOATS,
            conditions=[
                f"{flat} ? given(mask_type) && {_PAIRS} <= mask_type && mask_type <= {_ELEMENTS}"
                " : sizes(mask) == sizes(self)",
                f"{flat} && mask_type == {_PAIRS} ? sizes(mask) == [{length}, {length}] : 1",
                f"{flat} && mask_type == {_PLACES} ? sizes(mask) == [size(self, 0), {length}] : 1",
                f"{flat} ? mask_type != {_ELEMENTS} && size(self, 3) == {length} : 1",
            ],
            family="softmax",
        ),
        composed(
            "_masked_softmax_backward",
            _masked_softmax_backward_body,
            dtypes=FLOATS,
            conditions=["sizes(mask) == sizes(grad_output)", "sizes(output) == sizes(grad_output)"],
            family="softmax",
        ),
    ]
