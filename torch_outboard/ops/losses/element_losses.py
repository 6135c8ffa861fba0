"""Losses of elements that are compared with a target of the same sizes, and their gradients."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

# Of `reduction`; 0 is none.
_MEAN, _SUM = 1, 2


def rows() -> list[Row]:
    """Every row."""
    return [
        *_elementwise("mse_loss", 0, "mse_loss_backward.grad_input", meta=True),
        *_elementwise("smooth_l1_loss", 1, "smooth_l1_loss_backward.grad_input", "beta", meta=True),
        *_elementwise("huber_loss", 2, "huber_loss_backward.out", "delta"),
        *_elementwise(
            "binary_cross_entropy", 3, "binary_cross_entropy_backward.grad_input", weighted=True
        ),
    ]


def _elementwise(
    name: str,
    number: int,
    backward_out: str,
    shape: str = "",
    weighted: bool = False,
    meta: bool = False,
) -> list[Row]:
    """A loss of elements, where its arguments have the same sizes."""
    weight = " weight?" if weighted else ""
    same = ["sizes(self) == sizes(target)", f"reduction >= 0 && reduction <= {_SUM}"]
    if weighted:
        same.append("given(weight) ? sizes(weight) == sizes(self) : 1")
    if shape:
        same.append(f"{shape} > 0")
    reals = {"shape": shape} if shape else {}
    known: dict[str, Any] = {"meta": f"aten::{name}"} if meta else {}
    # CPU's other gradients are row-major.
    backward_like = "self" if weighted else ""
    reduced = f"(reduction == {_MEAN} || reduction == {_SUM})"
    divisor = f"reduction == {_MEAN} ? numel(self) : 1"
    return [
        templated(
            f"{name} {name}.out",
            "loss_functions loss_each",
            Launch("loss_each", "numel(self)"),
            dtypes=FLOATS,
            operands=f"self target{weight}",
            results=Result("out", like="self"),
            conditions=[f"!{reduced}", *same],
            reals=reals,
            constants={"LOSS": str(number)},
            family="loss",
            **known,
        ),
        templated(
            f"{name} {name}.out",
            "rows loss_functions loss_parts loss_total",
            [Launch("loss_parts", "parts", groups=True), Launch("loss_total", "1", groups=True)],
            dtypes=FLOATS,
            operands=f"self target{weight}",
            results=Result("out", "[]"),
            temporaries=[Result("losses", "max(parts, 1)", "value")],
            let={
                "part": "max(4096, (numel(self) + 63) // 64)",
                "parts": "(numel(self) + part - 1) // part",
            },
            conditions=[reduced, *same],
            numbers={
                "part": "part",
                "count": "numel(self)",
                "loss_count": "parts",
                "divisor": divisor,
            },
            reals=reals,
            constants={"LOSS": str(number)},
            vectors=True,
            family="loss",
            **known,
        ),
        templated(
            f"{name}_backward {backward_out}",
            "loss_functions loss_backward",
            Launch("loss_backward", "numel(self)"),
            dtypes=FLOATS,
            operands=f"self target grad_output{weight}",
            results=Result("grad", "sizes(self)", like=backward_like),
            let={"single": "numel(grad_output) == 1"},
            conditions=[
                *same,
                "single ? dims(grad_output) <= dims(self) : sizes(grad_output) == sizes(self)",
            ],
            numbers={"single": "single", "divisor": divisor},
            reals=reals,
            constants={"LOSS": str(number)},
            family="loss",
        ),
    ]
