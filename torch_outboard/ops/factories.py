"""Tensors made of nothing but numbers."""

from __future__ import annotations

from torch_outboard.ops.composed import EVERY, composed
from torch_outboard.ops.row import COMPLEX, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

FAMILY = {"family": "pointwise", "resizes": True}


def spaced(name: str, dtypes: tuple, **reals: str) -> Row:
    """linspace and logspace."""
    return templated(
        f"{name}.out",
        "linspace",
        Launch("linspace", "numel(out)"),
        dtypes=dtypes,
        operands="",
        results=Result("out", "numel(out) == steps ? sizes(out) : [steps]"),
        conditions=["steps >= 0"],
        numbers={"count": "steps"},
        reals={"start": "start", "end": "end", **reals},
        constants={"LOGARITHMIC": str(int(name == "logspace"))},
        **FAMILY,
    )


def rows() -> list[Row]:
    """Every row."""
    length = "ceil((end - start) / step)"
    return [
        templated(
            "arange.start_out",
            "arange",
            Launch("arange", "numel(out)"),
            dtypes=(*FLOATS, *INTEGERS),
            operands="",
            results=Result("out", f"numel(out) == {length} ? sizes(out) : [{length}]"),
            conditions=["step != 0", f"{length} >= 0", f"{length} < 1099511627776"],
            scalars="start step",
            **FAMILY,
        ),
        spaced("linspace", (*FLOATS, *COMPLEX)),
        spaced("logspace", FLOATS, base="base"),
        *(
            templated(
                f"{overload}",
                "sequence",
                Launch("eye", "numel(out)"),
                dtypes=EVERY,
                operands="",
                results=Result("out", f"[n, {columns}]"),
                conditions=["n >= 0", f"{columns} >= 0"],
                numbers={"columns": columns},
                **FAMILY,
            )
            for overload, columns in (("eye.out", "n"), ("eye.m_out", "m"))
        ),
        composed(
            "fill_.Tensor",
            "return self.copy_(value.expand(self.shape))",
            conditions=["dims(value) == 0"],
            family="pointwise",
        ),
    ]
