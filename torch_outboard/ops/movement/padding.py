"""Padding, and its gradients."""

from __future__ import annotations

from typing import Any

import torch

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import COMPLEX, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
FAMILY: dict[str, Any] = {"family": "movement"}


_CONSTANT_CONDITIONS = [
    "len(pad) % 2 == 0",
    "len(pad) <= 2 * dims(self)",
    # There is as much as is cut; raises, and so declines, where there is not.
    "len(padded_sizes(sizes(self), min(pad, 0))) == dims(self)",
]


def _cut(self: torch.Tensor, pad: list[int]) -> torch.Tensor:
    for k in range(len(pad) // 2):
        size = self.size(-1 - k) + pad[2 * k] + pad[2 * k + 1]
        self = self.narrow(-1 - k, -pad[2 * k], size)
    return self.clone()


def cutting() -> Row:
    """Negative padding on all sides, which keeps the order of the strides."""
    return composed(
        "constant_pad_nd",
        _cut,
        conditions=["len(pad) == 0 || max_of(pad) <= 0", *_CONSTANT_CONDITIONS],
        **FAMILY,
    )


def constant() -> Row:
    """Padding with a number; negative amounts cut."""
    return templated(
        "constant_pad_nd",
        "remap",
        Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
        dtypes=EVERY,
        results=Result("out", "padded_sizes(sizes(self), pad)", memory_format="self"),
        conditions=[
            "dims(self) <= 8",
            *_CONSTANT_CONDITIONS,
        ],
        numbers={"count": "0"},
        lists={"amounts": "pad", "along": "[]"},
        constants={"MODE": "0"},
        scalars="value",
        items_of="self out",
        strided="self out",
        **FAMILY,
    )


def of_dims(dims: int, kind: str, mode: str) -> list[Row]:
    """Reflection or replication of one to three dimensions, and the gradient."""
    name = f"{kind}_pad{dims}d"
    rank = [f"dims(self) == {dims + 1} || dims(self) == {dims + 2}", f"len(padding) == {2 * dims}"]
    valid = [*rank]
    for k in range(dims):
        n = f"size(self, -{k + 1})"
        left, right = f"padding[{2 * k}]", f"padding[{2 * k + 1}]"
        valid.append(f"{n} > 0 && {n} + {left} + {right} > 0")
        if kind == "reflection":
            valid.append(f"{left} < {n} && {right} < {n}")
    # Without a batch there is a channel.
    valid.append(f"dims(self) == {dims + 2} || size(self, 0) > 0")
    fits = "sizes(grad_output) == padded_sizes(sizes(self), padding)"
    return [
        templated(
            f"{name} {name}.out",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            dtypes=NUMBERS,
            results=Result("out", "padded_sizes(sizes(self), padding)", memory_format="self"),
            numbers={"count": "0"},
            lists={"amounts": "padding", "along": "[]"},
            constants={"MODE": mode},
            items_of="self out",
            strided="self out",
            conditions=valid,
            **FAMILY,
        ),
        templated(
            f"{name}_backward {name}_backward.grad_input",
            "reflect_backward",
            Launch("reflect_backward", "numel(out) // max(size(out, -1), 1)", groups=True),
            dtypes=(*FLOATS, *COMPLEX),
            operands="grad_output self",
            # The meta function of replication says row-major, and compiled graphs rely on it.
            results=Result(
                "out", "sizes(self)", memory_format="self" if kind == "reflection" else ""
            ),
            numbers={"padded_dims": str(dims)},
            lists={"amounts": "padding"},
            constants={"MODE": mode},
            strided="grad_output out",
            conditions=[*valid, fits],
            **FAMILY,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    made = [cutting(), constant()]
    for dims in (1, 2, 3):
        made += of_dims(dims, "reflection", "1")
        made += of_dims(dims, "replication", "2")
    return made
