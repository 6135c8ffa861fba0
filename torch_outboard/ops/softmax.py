"""Softmax, its logarithm, and the gradients of both."""

from __future__ import annotations

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated


def rows() -> list[Row]:
    """Every row."""
    return [
        row
        for log in (False, True)
        for forward in (True, False)
        for last in (True, False)
        for row in [_softmax(log, forward, last)]
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
        conditions=["inner == 1" if last else "inner != 1"],
        numbers={"n": "n", "inner": "inner"},
        constants={"LOG": str(int(log)), "FORWARD": str(int(forward))},
        meta=f"aten::{name}",
        vectors=True,
        requires={"half_to_float": "False"} if forward else {},
        family="softmax",
    )
