"""Tensors made of nothing but numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import COMPLEX, EVERY, FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

FAMILY: dict[str, Any] = {"family": "pointwise", "resizes_silently": True}


def spaced(name: str, dtypes: tuple[torch.dtype, ...], condition: str = "1", **reals: str) -> Row:
    """linspace and logspace."""
    return templated(
        f"{name}.out",
        "linspace",
        Launch("linspace", "numel(out)"),
        dtypes=dtypes,
        operands="",
        results=Result("out", "numel(out) == steps ? sizes(out) : [steps]"),
        conditions=["steps >= 0", condition],
        numbers={"count": "steps"},
        reals={"start": "start", "end": "end", **reals},
        constants={"LOGARITHMIC": str(int(name == "logspace"))},
        **FAMILY,
    )


def arange(
    dtypes: tuple[torch.dtype, ...],
    part: str,
    length: str,
    conditions: Sequence[str] = (),
    **properties: Any,
) -> Row:
    """Numbers from start to end by steps: as many as `length` says; of each, `part` counts."""
    start, end, step = (part.format(name) for name in ("start", "end", "step"))
    length = length.format(start=start, end=end, step=step)
    return templated(
        "arange.start_out",
        "arange",
        Launch("arange", "numel(out)"),
        dtypes=dtypes,
        operands="",
        results=Result("out", f"numel(out) == {length} ? sizes(out) : [{length}]"),
        conditions=[
            f"{step} != 0",
            "step > 0 ? end >= start : end <= start",
            f"{length} < 1099511627776",
            *conditions,
        ],
        scalars="start step",
        **properties,
        **FAMILY,
    )


def _arange_int64(real: str, whole: str) -> list[Row]:
    """Whole numbers are counted as such. Of others PyTorch cuts the fractions off;
    since 2.15 only after it has counted.
    """
    int64 = (torch.int64,)
    if torch.arange(1, 2.5, dtype=torch.int64, device="cpu").numel() == 1:
        return [arange(int64, "({0} < 0 ? ceil({0}) : floor({0}))", whole)]
    numbers = ("start", "end", "step")
    are_whole = [f"{name} == floor({name})" for name in numbers]
    some_is_not = " || ".join(f"{name} != floor({name})" for name in numbers)
    return [
        arange(int64, "{}", whole, are_whole),
        arange(int64, "{}", real, [some_is_not], compute="int64"),
    ]


def rows() -> list[Row]:
    """Every row."""
    # PyTorch makes doubles of the numbers first.
    real = "ceil((real({end}) - real({start})) / real({step}))"
    whole = "(({end} - {start} + {step} - ({step} > 0 ? 1 : -1)) // {step})"
    return [
        arange(FLOATS, "{}", real),
        # Numbers may be negative on the way.
        arange((torch.uint8, torch.int8, torch.int16, torch.int32), "{}", real, compute="int64"),
        *_arange_int64(real, whole),
        spaced("linspace", (*FLOATS, *COMPLEX)),
        spaced("logspace", FLOATS, base="base"),
        spaced("logspace", COMPLEX, "base != 0", base="base"),
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
            lambda self, value: self.copy_(value.expand(self.shape)),
            conditions=["dims(value) == 0"],
            family="pointwise",
        ),
    ]
