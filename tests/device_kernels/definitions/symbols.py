"""Symbols for tests, and what C++ computes of them."""

from __future__ import annotations

from typing import Any, cast

import torch

from torch_outboard import _C
from torch_outboard.ops import symbolic
from torch_outboard.ops.definition import Graph, argument
from torch_outboard.ops.symbolic import (
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymList,
    SymString,
    SymTensor,
    SymTensors,
    Value,
)

LEAST, MOST = -(2**63), 2**63 - 1

a, b, c = (cast("SymInt", argument(name, "int")) for name in "abc")
r = cast("SymFloat", argument("r", "float"))
numbers = cast("SymInts", argument("numbers", "List[int]"))
reals = cast("SymList[SymFloat]", argument("reals", "List[float]"))
flag = cast("SymBool", argument("flag", "bool"))
mode = cast("SymString", argument("mode", "str"))
tensor = cast("SymTensor", argument("tensor", "Tensor"))
absent = cast("SymTensor", argument("absent", "Optional[Tensor]"))
maybe = cast("SymInt", argument("maybe", "Optional[int]"))
many = cast("SymTensors", argument("many", "List[Optional[Tensor]]"))

# Default values of the names.
VALUES: dict[str, Any] = {
    "a": -1, "b": 9, "c": 3, "r": 1.5, "numbers": [5, 6, 7], "reals": [0.5, 2.0], "flag": True,
    "mode": "mean", "tensor": torch.zeros(2, 3, 4), "absent": None, "maybe": None,
}  # fmt: skip


def ints(*values: symbolic.Int) -> SymInts:
    return symbolic.ints(values)


def evaluate(value: Value, /, **values: Any) -> Any:
    graph = Graph()
    node = graph.add(value)
    return _C.testing.evaluate_expression(graph.nodes, node, VALUES | values)
