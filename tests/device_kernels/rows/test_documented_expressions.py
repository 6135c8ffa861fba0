"""The reference of rows, docs/rows.md: its expressions have the values that it says, and it names
every function and every property."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(("expression", "value"), ROWS)
def test_an_expression(expression: str, value: str) -> None:
    expected = ast.literal_eval(value)
    got = _C.evaluate_expression(expression, list(VALUES.items()))
    assert (type(got), got) == (type(expected), expected)


def test_every_function_has_an_example() -> None:
    text = (ROOT / "csrc/device_kernels/expressions/expression_operation.h").read_text()
    functions = set(re.findall(r'OPERATION\(\w+, +"([a-z_0-9]+)",', text))
    functions -= {"number", "text", "name"}
    shown = {name for expression, _ in ROWS for name in re.findall(r"(\w+)\(", expression)}
    assert len(functions) > 25
    assert functions <= shown


def test_every_property_is_described() -> None:
    files = [
        ROOT / "csrc/device_kernels/engine.h",
        ROOT / "csrc/device_kernels/rows/requirements.cpp",
    ]
    files += (ROOT / "csrc/device_kernels/template").glob("*.cpp")
    asked = re.compile(
        r'row\.(?:has|flag|integer|number|text|texts|integers|dictionary|one_of)\("(\w+)"'
    )
    properties = {name for file in files for name in asked.findall(file.read_text())}
    # What Result and Launch hold goes by other names there.
    properties -= {"source", "kernels", "items", "like", "strides", "wanted", "initial"}
    properties -= {"memory_formats"}
    assert len(properties) > 20
    described = set(re.findall(r"`(\w+)`", PAGE))
    assert properties <= described, properties - described


def test_every_word_of_texts_is_described() -> None:
    source = (ROOT / "csrc/device_kernels/template/template_source.cpp").read_text()
    source += (ROOT / "torch_outboard/kernels/template.cl").read_text()
    words = set(
        re.findall(r"\b(OB_[A-Z_]+|ob_(?:place|line|seed|offset|items|step|index))\b", source)
    )
    # Parts of other words, and the language of drivers.
    words -= {"OB_POINTER", "OB_BIND", "OB_DEFINE_GROUP", "OB_FEW"}
    assert {word for word in words if word not in PAGE} == set()
