"""Rows that make no sense, as users can write them, are refused when they are made, by name of row
and property."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torch_outboard import _C, Launch
from torch_outboard.ops.row import FLOATS, Row, argument_name
from torch_outboard.ops.template import Result, templated

NAME = "outboard_rows::blend"


@pytest.fixture(scope="module", autouse=True)
def operator() -> Iterator[None]:
    with torch.library._scoped_library("outboard_rows", "DEF") as library:
        library.define(
            "blend(Tensor x, int by, int? maybe, int[] list, str mode, Scalar s, Tensor? y)"
            " -> Tensor"
        )
        library.define("blend.out(Tensor x, int by, *, Tensor(a!) out) -> Tensor(a!)")
        yield


def refusal(row: Row, **changes: Any) -> str:
    """What is said of the row with these properties, which is right without them."""
    name = (row | changes)["overloads"][-1]
    make(name, row)
    with pytest.raises(ValueError, match="the row of") as error:
        make(name, row | changes)
    return str(error.value).splitlines()[0]


def make(name: str, row: Row) -> None:
    """Makes the kernel of an overload, and takes it back."""
    _C.remove_kernel(name, _C.add_row_kernel(name, row, None, -1))


def template_row() -> Row:
    return templated(
        [NAME], None, Launch("k", "numel(out)"), source="", dtypes=FLOATS, operands="x",
        temporaries=[Result("t", "4", "int32")],
    )  # fmt: skip


def pointwise_row() -> Row:
    return {
        "engine": "pointwise", "overloads": [NAME], "operands": ["x"], "scalars": ["by"],
        "expressions": ["x + by"],
    }  # fmt: skip


REFUSED = {
    "amount": "uses 'amount', which is not known there",
    "by +": "cannot be read at place",
    "half(by)": "calls 'half', which does not exist",
    "size(x)": "calls 'size' with 1 arguments; it takes 2",
    "numel(by)": "gives 'numel' a number where it takes a tensor",
    "len(x)": "gives 'len' a tensor where it takes a list",
    "mode * 2": "gives '*' a text where it takes a number",
    "by[0]": "gives '[]' a number where it takes a list",
    "list[mode:]": "gives '[:]' a text where it takes a number",
    "[list, 1][0]": "gives '[...]' a list where it takes a number",
    "list + 1": "adds a list and a number",
    "by > 0 ? list : sizes(x)": "is a list where a number is needed",
    'either("a", mode)': "is a text where a number is needed",
    "x": "is a tensor where a number is needed",
}
# What only a call can know.
ACCEPTED = (
    "maybe", "either(maybe, 3)", "given(maybe) ? maybe : by", "s", "given(y) ? numel(y) : 0",
    'mode == "mean"', "(list + [by])[0]", "min(by, 2)", "sum(min(list, 2))", "x == y",
    "len(either(list, sizes(x)))", "given(list) && by > 1", "sum(list[1:])",
)  # fmt: skip


def test_an_expression_is_checked_when_its_row_is_made() -> None:
    for text, words in REFUSED.items():
        said = refusal(template_row(), numbers=[f"n = {text}"])
        assert said.startswith(f"property 'numbers' of the row of {NAME}: ")
        assert words in said
    for text in ACCEPTED:
        make(NAME, template_row() | {"numbers": [f"n = {text}"]})


PROPERTIES = [
    (template_row, "let", ["d = nothing"], "uses 'nothing'"),
    (template_row, "sizes", ["numel(x)"], "a number where a list is needed"),
    (template_row, "strides", {"out": "1"}, "a number where a list is needed"),
    (template_row, "wanted", {"out": "lent(x)"}, "calls 'lent'"),
    (template_row, "reals", ["r = sizes(x)"], "a list where a number is needed"),
    (template_row, "constants", ["C = mode"], "a text where a number is needed"),
    (template_row, "random", "sizes(x)", "a list where a number is needed"),
    (template_row, "items", ["x"], "a tensor where a number is needed"),
    (template_row, "items", [], "does not say how many work items 'k' has"),
    (template_row, "reads", ["n t"], "instead of 'name = temporary'"),
    (template_row, "read_after", 2, "there are 1 launches"),
    (template_row, "operands", ["z"], "the argument 'z'"),
    (template_row, "operands", ["z=list"], "instead of 'name=list[place]'"),
    (template_row, "accepts", {"z": "any"}, "it names 'z', which is none of 'x'"),
    (template_row, "accepts", {"x": "float33"}, "float33"),
    (template_row, "reports", "Warning", "it can report IndexError or RuntimeError"),
    (template_row, "requires", {"z": "1"}, "the argument 'z'"),
    (template_row, "vectors", "yes", "of a type that engine 'template' does not expect"),
    (pointwise_row, "types", "other", "'float', 'complex', 'self', 'same'"),
    (pointwise_row, "result", "index", "is none of 'value', 'mask', 'real'"),
    (pointwise_row, "operands", ["z"], "the argument 'z'"),
    (pointwise_row, "scalar_names", ["a", "b"], "not as many scalars as names"),
    (pointwise_row, "absent", {"z": "1"}, "it names 'z', which is none of 'by'"),
    (pointwise_row, "expressions", ["x", "by"], "2 expressions"),
]  # fmt: skip


def test_every_property_is_checked() -> None:
    for make_row, key, value, words in PROPERTIES:
        row = make_row()
        said = refusal(row, **{key: value})
        assert said.startswith(f"property '{key}' of the row of {row['overloads'][0]}: ")
        assert words in said, said
    for make_row in (template_row, pointwise_row):
        row = make_row()
        assert refusal(row, colour="red") == (
            f"the row of {row['overloads'][0]} has the property 'colour', which engine "
            f"'{row['engine']}' does not know"
        )


def test_values_of_types_that_no_property_has_are_refused() -> None:
    for value in (1.5, [1], {"d": 1}, None):
        with pytest.raises(ValueError, match="a row gives 'let' a value that is no flag, integer"):
            make(NAME, template_row() | {"let": value})


def test_a_later_overload_is_named_beside_the_row() -> None:
    said = refusal(template_row(), overloads=[NAME, f"{NAME}.out"], scalars=["s"])
    assert said.startswith(f"property 'scalars' of the row of {NAME}, for {NAME}.out: ")


def test_arguments_are_named_as_the_installed_pytorch_names_them():
    assert argument_name("add.Tensor", "summand", "other") == "other"
    with pytest.raises(ValueError, match=r"aten::add.Tensor has no argument summand or addend"):
        argument_name("add.Tensor", "summand", "addend")
