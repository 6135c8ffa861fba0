"""Rows that make no sense: they are refused when they are made, by name of row and property."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torch_outboard import _C, Launch
from torch_outboard.ops.row import FLOATS, Row, argument_name, dtype_bits, template
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


def lists_row() -> Row:
    return {
        "engine": "pointwise_lists", "overloads": ["aten::_foreach_add_.Scalar"],
        "lists": ["self"], "outputs": ["self"], "scalars": ["scalar"],
        "expressions": ["self + scalar"],
    }  # fmt: skip


def reduction_row() -> Row:
    return {
        "engine": "reduction", "overloads": [NAME], "state": ["T total"],
        "initial": "s.total = C(0);", "step": "s.total += x;", "merge": "s.total += t.total;",
        "results": ["s.total"], "scalars": ["by"], "source": template("reduction"),
    }  # fmt: skip


def product_row() -> Row:
    return {
        "engine": "matrix_product", "overloads": ["aten::mm"], "left": "self", "right": "mat2",
        "left_dimensions": "mk", "right_dimensions": "kn", "result_dimensions": "mn",
        "dtypes": dtype_bits(FLOATS), "source": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("amount", "uses 'amount', which is not known there"),
        ("by +", "cannot be read at place"),
        ("by by", "cannot be read at place"),
        ("half(by)", "calls 'half', which does not exist"),
        ("size(x)", "calls 'size' with 1 arguments; it takes 2"),
        ("numel(by)", "gives 'numel' a number where it takes a tensor"),
        ("size(x, list)", "gives 'size' a list where it takes a number"),
        ("len(x)", "gives 'len' a tensor where it takes a list"),
        ("max_of(by)", "gives 'max_of' a number where it takes a list"),
        ("mode * 2", "gives '*' a text where it takes a number"),
        ("-list", "gives '-' a list where it takes a number"),
        ("list < 2", "gives '<' a list where it takes a number"),
        ("by[0]", "gives '[]' a number where it takes a list"),
        ("list[mode]", "gives '[]' a text where it takes a number"),
        ("list[mode:]", "gives '[:]' a text where it takes a number"),
        ("[list, 1][0]", "gives '[...]' a list where it takes a number"),
        ("list + 1", "adds a list and a number"),
        ("floor(x)", "gives 'floor' a tensor where it takes a number"),
        ("by > 0 ? list : sizes(x)", "is a list where a number is needed"),
        ('either("a", mode)', "is a text where a number is needed"),
        ("x", "is a tensor where a number is needed"),
    ],
)
def test_an_expression_is_checked_when_its_row_is_made(text: str, words: str) -> None:
    said = refusal(template_row(), numbers=[f"n = {text}"])
    assert said.startswith(f"property 'numbers' of the row of {NAME}: ")
    assert words in said


@pytest.mark.parametrize(
    "text",
    [
        "maybe", "either(maybe, 3)", "given(maybe) ? maybe : by", "s", "given(y) ? numel(y) : 0",
        'mode == "mean"', "(list + [by])[0]", "min(by, 2)", "sum(min(list, 2))", "x == y",
        "len(either(list, sizes(x)))", "given(list) && by > 1", "sum(list[1:])",
    ],
)  # fmt: skip
def test_what_only_a_call_can_know_is_accepted(text: str) -> None:
    make(NAME, template_row() | {"numbers": [f"n = {text}"]})


@pytest.mark.parametrize(
    ("row", "key", "value", "words"),
    [
        (template_row, "let", ["d by"], "instead of 'name = expression'"),
        (template_row, "let", ["d = nothing"], "uses 'nothing'"),
        (template_row, "conditions", ["size(x)"], "calls 'size'"),
        (template_row, "sizes", ["numel(x)"], "a number where a list is needed"),
        (template_row, "temporary_sizes", ["sizes(x)"], "a list where a number is needed"),
        (template_row, "strides", {"out": "1"}, "a number where a list is needed"),
        (template_row, "strides", {"other": "[1]"}, "the tensor 'other'"),
        (template_row, "wanted", {"out": "lent(x)"}, "calls 'lent'"),
        (template_row, "initial", {"out": "other"}, "the tensor 'other'"),
        (template_row, "reals", ["r = sizes(x)"], "a list where a number is needed"),
        (template_row, "lists", ["l = by"], "a number where a list is needed"),
        (template_row, "constants", ["C = mode"], "a text where a number is needed"),
        (template_row, "random", "sizes(x)", "a list where a number is needed"),
        (template_row, "items", ["x"], "a tensor where a number is needed"),
        (template_row, "items", [], "does not say how many work items 'k' has"),
        (template_row, "when", ["numel(by)"], "gives 'numel' a number"),
        (template_row, "repeat", ["sizes(x)"], "a list where a number is needed"),
        (template_row, "reads", ["n t"], "instead of 'name = temporary'"),
        (template_row, "read_after", 2, "there are 1 launches"),
        (template_row, "operands", ["z"], "the argument 'z'"),
        (template_row, "operands", ["z=list"], "instead of 'name=list[place]'"),
        (template_row, "accepts", {"z": "any"}, "it names 'z', which is none of 'x'"),
        (template_row, "accepts", {"x": "float33"}, "float33"),
        (template_row, "like", ["z"], "the tensor 'z'"),
        (template_row, "result_dtypes", ["float33"], "the tensor 'float33'"),
        (template_row, "compute", "float33", "the tensor 'float33'"),
        (template_row, "scalars", ["z"], "the argument 'z'"),
        (template_row, "items_of", ["z"], "the tensor 'z'"),
        (template_row, "strided", ["z"], "the tensor 'z'"),
        (template_row, "reports", "Warning", "it can report IndexError or RuntimeError"),
        (template_row, "requires", {"z": "1"}, "the argument 'z'"),
        (template_row, "vectors", "yes", "of a type that engine 'template' does not expect"),
        (pointwise_row, "types", "other", "'float', 'complex', 'self', 'same'"),
        (pointwise_row, "result", "index", "is none of 'value', 'mask', 'real'"),
        (pointwise_row, "operands", ["z"], "the argument 'z'"),
        (pointwise_row, "names", ["a", "b"], "not as many operands as names"),
        (pointwise_row, "scalars", ["z"], "the argument 'z'"),
        (pointwise_row, "scalar_names", ["a", "b"], "not as many scalars as names"),
        (pointwise_row, "absent", {"z": "1"}, "it names 'z', which is none of 'by'"),
        (pointwise_row, "absent", {"by": "least"}, "'least' is no number"),
        (pointwise_row, "promoting", ["z"], "it names 'z'"),
        (pointwise_row, "masks", ["z"], "it names 'z', which is none of 'x'"),
        (pointwise_row, "expressions", ["x", "by"], "2 expressions"),
        (lists_row, "outputs", ["z"], "it names 'z'"),
        (lists_row, "uniform", ["z"], "it names 'z'"),
        (lists_row, "lists", ["z"], "the argument 'z'"),
        (lists_row, "derived", {"d": "2*scalar"}, "neither 1-<scalar> nor log(<scalar>)"),
        (reduction_row, "types", "self", "is none of 'same', 'promote', 'float', 'test'"),
        (reduction_row, "results", ["s.total", "s.total"], "there are 2"),
        (reduction_row, "indices", ["yes"], "it names 'yes', which is none of 'True', 'False'"),
        (reduction_row, "absent", {"z": "1"}, "it names 'z'"),
        (reduction_row, "absent", {"by": "least"}, "'least' is no number"),
        (reduction_row, "empty", "nothing", "'nothing' is no number"),
        (reduction_row, "exceeds", "z", "'z' is none of the scalars"),
        (reduction_row, "when", {"by": "often"}, "'often' is no number"),
        (reduction_row, "scalars", ["z"], "the argument 'z'"),
        (product_row, "left_dimensions", "xy", "the dimension 'x'; there are b, m, n and k"),
        (product_row, "right", "mat3", "the argument 'mat3'"),
    ],
)  # fmt: skip
def test_every_property_is_checked(row: Any, key: str, value: Any, words: str) -> None:
    said = refusal(row(), **{key: value})
    assert said.startswith(f"property '{key}' of the row of {row()['overloads'][0]}: ")
    assert words in said


@pytest.mark.parametrize(
    "row", [template_row, pointwise_row, lists_row, reduction_row, product_row]
)
def test_a_property_that_does_not_exist_is_named(row: Any) -> None:
    said = refusal(row(), colour="red")
    assert said == (
        f"the row of {row()['overloads'][0]} has the property 'colour', which engine "
        f"'{row()['engine']}' does not know"
    )


def test_a_later_overload_is_named_beside_the_row() -> None:
    said = refusal(template_row(), overloads=[NAME, f"{NAME}.out"], scalars=["s"])
    assert said.startswith(f"property 'scalars' of the row of {NAME}, for {NAME}.out: ")


def test_arguments_are_named_as_the_installed_pytorch_names_them():
    assert argument_name("add.Tensor", "summand", "other") == "other"
    with pytest.raises(ValueError, match=r"aten::add.Tensor has no argument summand or addend"):
        argument_name("add.Tensor", "summand", "addend")
