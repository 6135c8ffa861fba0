"""docs/rows.md, the reference of rows: expressions with every function have the values there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import torch

from torch_outboard import _C

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "rows.md").read_text()
ROWS = [
    (expression.replace("\\|", "|"), value)
    for expression, value in re.findall(r"^\| `(.+?)` \| `([^`]+)` \|", PAGE, re.M)
    if re.fullmatch(r"[\d.\[\], -]+", value)
]
VALUES = {"d": -1, "l": [5, 6, 7], "mode": "mean", "weight": None, "x": torch.zeros(2, 3, 4)}


def test_expressions() -> None:
    for expression, value in ROWS:
        expected = ast.literal_eval(value)
        got = _C.testing.evaluate_expression(expression, list(VALUES.items()))
        assert (expression, type(got), got) == (expression, type(expected), expected)


def test_every_function_has_an_example() -> None:
    text = (ROOT / "csrc/device_kernels/expressions/expression_operation.h").read_text()
    functions = set(re.findall(r'OPERATION\(\w+, +"([a-z_0-9]+)",', text))
    functions -= {"number", "text", "name"}
    shown = {name for expression, _ in ROWS for name in re.findall(r"(\w+)\(", expression)}
    assert len(functions) > 25
    assert functions <= shown
