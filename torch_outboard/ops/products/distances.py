"""Distances between rows of matrices, and cross products."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.row import COMPLEX, FLOATS, INTEGERS, Row, argument_name, template
from torch_outboard.ops.template import Launch, Result, templated

# CPU has no half-precision kernels of these.
WIDE = (torch.float32, torch.float64)


def _kind(of: str) -> dict[str, str]:
    # CPU rounds p to the dtype first.
    infinite = f"p > (bytes({of}) == 8 ? 1.7976931348623157e308 : 3.4028234663852886e38)"
    return {"KIND": f"p == 0 ? 0 : (p == 1 ? 1 : (p == 2 ? 2 : ({infinite} ? 3 : 4)))"}


# Of the backwards; the second since PyTorch 2.15.
_GRADIENT = ("grad", "grad_output")


def _text(name: str, gradient: str) -> str:
    """The kernels of a backward, whose gradient has this name."""
    return (template("distances") + template(name)).replace("grad_load", f"{gradient}_load")


def _cdist() -> list[Row]:
    let = {
        "batch": "broadcast(sizes(x1)[0:dims(x1) - 2], sizes(x2)[0:dims(x2) - 2])",
        "m": "size(x1, -1)",
        "rows2": "size(x2, -2)",
    }
    numbers = {"columns": "m", "rows1": "size(x1, -2)", "rows2": "rows2"}
    conditions = ["dims(x1) >= 2", "dims(x2) >= 2", "m == size(x2, -1)", "p >= 0"]
    common: dict[str, Any] = {
        "reals": {"p": "p"}, "dtypes": WIDE, "strided": "x1 x2 out", "family": "distance"
    }  # fmt: skip
    gradient = argument_name("_cdist_backward", *_GRADIENT)
    pairs = "batch + [size(x1, -2), size(x2, -2)]"
    return [
        templated(
            "_cdist_forward _cdist_forward.out",
            "distances cdist",
            # OB_ADJACENT in cdist.cl
            Launch("cdist", "rows2 == 0 ? 0 : numel(out) // rows2 * ((rows2 + 7) // 8)"),
            operands="x1 x2",
            results=Result("out", sizes=pairs),
            let=let,
            numbers=numbers,
            constants={**_kind("x1"), "BACKWARD": "0"},
            conditions=[
                *conditions,
                "given(compute_mode) ? compute_mode >= 0 && compute_mode <= 2 : 1",
            ],
            **common,
        ),
        templated(
            "_cdist_backward _cdist_backward.out",
            None,
            Launch("cdist", "numel(out)"),
            source=_text("cdist", gradient),
            operands=f"x1 x2 {gradient} cdist",
            results=Result("out", sizes="batch + [size(x1, -2), m]"),
            let=let,
            numbers=numbers,
            constants={**_kind("x1"), "BACKWARD": "1"},
            conditions=[
                *conditions,
                f"sizes({gradient}) == {pairs}",
                f"sizes(cdist) == {pairs}",
                f"numel({gradient}) > 0 && m > 0",
            ],
            **common,
        ),
        # Nothing is added up; then CPU gives gradients of the sizes of x1, not of the batches.
        templated(
            "_cdist_backward _cdist_backward.out",
            None,
            Launch("cdist", "0"),
            source=_text("cdist", gradient),
            operands=f"x1 x2 {gradient} cdist",
            results=Result("out", sizes="sizes(x1)", like="x1", initial="0"),
            let=let,
            numbers=numbers,
            constants={**_kind("x1"), "BACKWARD": "1"},
            conditions=[*conditions, f"numel({gradient}) == 0 || m == 0"],
            **common,
        ),
    ]


def _pdist() -> list[Row]:
    numbers = {"rows": "size(self, 0)", "columns": "size(self, 1)"}
    pairs = "[max(size(self, 0) * (size(self, 0) - 1) // 2, 0)]"
    gradient = argument_name("_pdist_backward", *_GRADIENT)
    common: dict[str, Any] = {
        "reals": {"p": "p"}, "dtypes": WIDE, "numbers": numbers, "family": "distance"
    }  # fmt: skip
    return [
        templated(
            "_pdist_forward _pdist_forward.out",
            "distances pdist",
            Launch("pdist", "numel(out)"),
            results=Result("out", sizes=pairs),
            constants={**_kind("self"), "BACKWARD": "0"},
            conditions=["dims(self) == 2", "p >= 0"],
            **common,
        ),
        templated(
            "_pdist_backward _pdist_backward.out",
            None,
            Launch("pdist", "numel(out)"),
            source=_text("pdist", gradient),
            operands=f"self {gradient} pdist",
            results=Result("out", sizes="sizes(self)"),
            constants={**_kind("self"), "BACKWARD": "1"},
            conditions=[
                "dims(self) == 2",
                "p >= 0",
                f"sizes({gradient}) == {pairs}",
                f"sizes(pdist) == {pairs}",
            ],
            **common,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [
        *_cdist(),
        *_pdist(),
        templated(
            "linalg_cross linalg_cross.out",
            "cross",
            Launch("cross_product", "numel(out) // 3"),
            dtypes=(*FLOATS, *INTEGERS, *COMPLEX),
            family="pointwise",
            operands="self other",
            meta="aten::linalg_cross",
            strided="self other out",
            numbers={"d": "wrap(dim, dims(self))"},
            conditions=["dims(self) > 0", "dims(self) == dims(other)"],
        ),
    ]
