"""Mistakes in operator definitions raise when they are defined, or when C++ makes the kernel: the
message or the traceback names the line of the definition."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from torch_outboard import _C, Plan
from torch_outboard.ops import symbolic, tables
from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.expression import Pointwise
from torch_outboard.ops.symbolic import SymFloat, SymInt, SymInts, SymString, SymTensor
from torch_outboard.ops.template import ANY, Body, template

NAME = "outboard_definitions::blend"
KERNEL = "__kernel void k(OB_PARAMETERS) {}"


@pytest.fixture(scope="module", autouse=True)
def operator() -> Iterator[None]:
    with torch.library._scoped_library("outboard_definitions", "DEF") as library:
        library.define(
            "blend(Tensor x, int by, int? maybe, int[] list, str mode, Scalar s, Tensor? y)"
            " -> Tensor"
        )
        library.define("blend.out(Tensor x, int by, *, Tensor(a!) out) -> Tensor(a!)")
        yield


def right(plan: Plan, x: SymTensor, by: SymInt) -> None:
    plan.require(by >= 0)
    out = plan.result()
    plan.temporary("t", 4, torch.int32)
    plan.parameters(by=by)
    plan.launch("k", out.numel())


def defined(body: Body = right, **fields: Any) -> Definition:
    return template([NAME], source=KERNEL, dtypes=FLOATS, **fields)(body)


def changed(definition: Definition, **fields: Any) -> Definition:
    return replace(definition, **fields)


def make(definition: Definition, name: str = NAME) -> None:
    """Makes the kernel of an overload, and takes it back."""
    _C.remove_kernel(name, _C.add_definition(name, definition, None, -1))


def location(body: Callable[..., Any]) -> str:
    code = body.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def refusal(definition: Definition) -> str:
    """The error that C++ raises for a definition."""
    with pytest.raises(ValueError, match="definition of outboard_definitions") as error:
        make(definition, definition.overloads[-1])
    return str(error.value).splitlines()[0]


# ---- Mistakes that Python finds


def unknown_argument(plan: Plan, x: SymTensor, amount: SymInt) -> None:
    plan.result()


def unknown_name(plan: Plan, x: SymTensor) -> None:
    plan.result("out", amount)  # noqa: F821


def condition_is_a_number(plan: Plan, by: SymInt) -> None:
    plan.require(by)


def condition_in_python(plan: Plan, by: SymInt) -> None:
    if by > 0:
        plan.result()


def condition_behind_results(plan: Plan, x: SymTensor, by: SymInt) -> None:
    plan.result()
    plan.require(by > 0)


def shape_is_a_number(plan: Plan, x: SymTensor) -> None:
    plan.result("out", x.numel())


def strides_are_a_number(plan: Plan, x: SymTensor) -> None:
    plan.result(strides=x.stride(0))


def size_is_a_list(plan: Plan, x: SymTensor) -> None:
    plan.result()
    plan.temporary("t", x.shape)


def size_is_a_real(plan: Plan, x: SymTensor, s: SymFloat) -> None:
    plan.result()
    plan.temporary("t", s * 2)


def items_are_a_tensor(plan: Plan, x: SymTensor) -> None:
    plan.launch("k", x)


def no_items(plan: Plan, x: SymTensor) -> None:
    plan.launch("k")


def items_and_groups(plan: Plan, x: SymTensor) -> None:
    plan.launch("k", x.numel(), groups=1)


def parameter_is_a_string(plan: Plan, mode: SymString) -> None:
    plan.parameters(mode=mode)


def parameter_is_a_tensor(plan: Plan, x: SymTensor) -> None:
    plan.parameters(x=x)


def constant_is_a_real(plan: Plan, s: SymFloat) -> None:
    plan.constants(S=s)


def draws_are_a_list(plan: Plan, list: SymInts) -> None:
    plan.random(list)


def two_tensors(plan: Plan, x: SymTensor) -> None:
    plan.result("x")


def two_values(plan: Plan, by: SymInt) -> None:
    plan.parameters(by=by)
    plan.constants(by=by)


def model_is_computed(plan: Plan, x: SymTensor, y: SymTensor) -> None:
    plan.result(like=symbolic.where(symbolic.given(y), y, x))


def dtype_of_a_made_tensor(plan: Plan, x: SymTensor) -> None:
    plan.result(dtype=plan.temporary("t", 1))


def shape_of_reals(plan: Plan, s: SymFloat) -> None:
    plan.result("out", [s])


def wanted_is_a_number(plan: Plan, by: SymInt) -> None:
    plan.result(wanted=by)


def when_is_a_number(plan: Plan, by: SymInt) -> None:
    plan.launch("k", 1, when=by)


def initial_is_a_string(plan: Plan, mode: SymString) -> None:
    plan.result(initial=mode)


def list_of_reals(plan: Plan, s: SymFloat) -> None:
    plan.parameters(l=symbolic.expand(s, 3))


def scalar_is_computed(plan: Plan, s: SymFloat) -> None:
    plan.scalars(s * 2)


def read_of_an_operand(plan: Plan, x: SymTensor) -> None:
    plan.read(x)


def lanes_behind_results(plan: Plan, x: SymTensor) -> None:
    plan.result()
    plan.limit_lanes(128)


def reads_twice(plan: Plan, x: SymTensor) -> None:
    t = plan.temporary("t", 1, torch.int32)
    plan.launch("k", 1)
    plan.read(t)
    plan.launch("k", 1)
    plan.read(t)


DEFINITIONS: dict[Body, tuple[type[Exception], str]] = {
    unknown_argument: (ValueError, f"{NAME} has no argument 'amount'; it has x, by, maybe, list"),
    unknown_name: (NameError, "'amount' is not defined"),
    condition_is_a_number: (TypeError, "a condition is a flag, not SymInt"),
    condition_in_python: (TypeError, "a symbol has no truth value"),
    condition_behind_results: (ValueError, "plan.require comes before results"),
    shape_is_a_number: (TypeError, "SymInt is not a list of integers"),
    strides_are_a_number: (TypeError, "is not a list of integers"),
    size_is_a_list: (TypeError, "is not an integer"),
    size_is_a_real: (TypeError, "is not an integer"),
    items_are_a_tensor: (TypeError, "SymTensor 'x' is not an integer"),
    no_items: (TypeError, "the launch of 'k' takes one of items= and groups="),
    items_and_groups: (TypeError, "the launch of 'k' takes one of items= and groups="),
    parameter_is_a_string: (TypeError, "the parameter 'mode' is neither a number nor a list of"),
    parameter_is_a_tensor: (TypeError, "the parameter 'x' is neither a number nor a list of"),
    constant_is_a_real: (TypeError, "the constant 'S' is neither an integer nor a flag"),
    draws_are_a_list: (TypeError, "is not an integer"),
    two_tensors: (ValueError, "there are two tensors of the name 'x'"),
    dtype_of_a_made_tensor: (ValueError, "a dtype is that of an operand, and not of"),
    shape_of_reals: (TypeError, "[SymFloat 's'] is not a list of integers"),
    wanted_is_a_number: (TypeError, "a condition is a flag, not SymInt"),
    when_is_a_number: (TypeError, "a condition is a flag, not SymInt"),
    initial_is_a_string: (
        TypeError,
        "'out' is filled with SymString 'mode', which is not a number",
    ),
    list_of_reals: (TypeError, "the parameter 'l' is neither a number nor a list of integers"),
    scalar_is_computed: (TypeError, "SymFloat is not an argument; plan.parameters passes values"),
    read_of_an_operand: (ValueError, "'x' is not a temporary"),
    lanes_behind_results: (ValueError, "limit_lanes comes before results"),
    two_values: (ValueError, "there are two values of the name 'by'"),
    model_is_computed: (ValueError, "name an operand, a result or a temporary"),
    reads_twice: (ValueError, "plan.read was called after different launches"),
}


@pytest.mark.parametrize("body", DEFINITIONS, ids=lambda body: body.__name__)
def test_a_mistake_raises_when_it_is_defined(body: Body) -> None:
    kind, words = DEFINITIONS[body]
    with pytest.raises(kind) as error:
        defined(body)
    assert words in str(error.value)
    lines = range(body.__code__.co_firstlineno, body.__code__.co_firstlineno + 9)
    named = any(
        entry.filename == __file__ and entry.name == body.__name__ and entry.lineno in lines
        for entry in traceback.extract_tb(error.tb)
    )
    assert named or str(error.value).startswith(f"{location(body)}: ")


def test_conditions_are_checked_when_they_are_defined() -> None:
    with pytest.raises(ValueError, match=r"no argument 'z'; it has x, by, maybe, list, mode, s"):
        decomposition(NAME, lambda x: x, condition=lambda z: z == 1)
    with pytest.raises(TypeError, match="SymInt 'by' cannot be compared with SymString"):
        decomposition(NAME, lambda x: x, condition=lambda by: by == "one")
    with pytest.raises(ValueError, match="there is no argument 'z'"):
        defined(shapes_only=["z"])
    with pytest.raises(ValueError, match=r"'outboard_definitions::blind' does not exist"):
        template(["outboard_definitions::blind"], source="", dtypes=FLOATS)(right)
    with pytest.raises(ValueError, match=f"{NAME} has no argument 'amount'") as error:
        decomposition(NAME, lambda x: x, condition=lambda amount: amount > 0)
    assert f"{__file__}:" in str(error.value)


# ---- Mistakes that C++ finds


def two_results(plan: Plan, x: SymTensor) -> None:
    plan.result("a")
    plan.result("b")


def no_result(plan: Plan, x: SymTensor) -> None:
    plan.launch("k", x.numel())


def like_of_no_operand(plan: Plan, x: SymTensor, y: SymTensor) -> None:
    plan.result(like=y)


FIELDS: list[tuple[Body, dict[str, Any], str, str]] = [
    (two_results, {}, "results", "it has 2 results, and the overload has 1"),
    (no_result, {}, "results", "it has 0 results, and the overload has 1"),
    (like_of_no_operand, {"shapes_only": ["y"]}, "like", "it names the tensor 'y'"),
    (right, {"strided": ["z"]}, "strided", "it names the tensor 'z', which the definition does"),
    (right, {"moves": ["x", "o"]}, "moves", "it names the tensor 'o'"),
    (right, {"accepts": {"z": ANY}}, "accepts", "it names 'z', which is none of 'x'"),
    (right, {"compute": "z"}, "compute_of", "it names the tensor 'z'"),
    (right, {"reports": Warning}, "reports", "it can report IndexError or RuntimeError"),
    (
        right,
        {"vectors": "yes"},
        "vectors",
        "definitions of the kind 'template' do not take",
    ),
]


def test_a_mistake_raises_when_the_kernel_is_made() -> None:
    make(defined())
    for body, fields, key, words in FIELDS:
        said = refusal(defined(body, **fields))
        assert said.startswith(f"{location(body)}: field '{key}' of the definition of {NAME}: ")
        assert words in said, said


def test_the_line_is_that_of_a_decorated_definition() -> None:
    line = inspect.currentframe().f_lineno + 2

    @template([NAME], source=KERNEL, dtypes=FLOATS, strided=["z"])
    def blend(plan: Plan, x: SymTensor) -> None:
        plan.result()

    assert refusal(blend).startswith(f"{__file__}:{line}: field 'strided'")


def test_nodes_are_checked() -> None:
    for key, value, words in (
        ("conditions", [99], "there is no node 99"),
        ("items", [99], "there is no node 99"),
        ("numbers", {"by": -1}, "there is no node -1"),
        ("lanes", 99, "there is no node 99"),
    ):
        said = refusal(changed(defined(), **{key: value}))
        assert said.startswith(f"{location(right)}: ")
        assert words in said


def test_a_later_overload_is_named_beside_the_definition() -> None:
    def body(plan: Plan, x: SymTensor, s: SymFloat) -> None:
        plan.result()
        plan.scalars(s)

    definition = template([NAME, f"{NAME}.out"], source=KERNEL, dtypes=FLOATS)(body)
    said = refusal(definition)
    assert said.startswith(
        f"{location(body)}: field 'scalars' of the definition of {NAME}, for {NAME}.out: "
    )


def pointwise_definition() -> Definition:
    return Pointwise(
        overloads=[NAME], operands=["x"], names=["x"], scalars=["by"], scalar_names=["by"],
        expressions=["x + by"],
    )  # fmt: skip


def test_fields_of_expressions_are_checked() -> None:
    make(pointwise_definition())
    for key, value, words in (
        ("types", "other", "'float', 'complex', 'self', 'same'"),
        ("result", "index", "is none of 'value', 'mask', 'real'"),
        ("operands", ["z"], "the argument 'z'"),
        ("scalar_names", ["a", "b"], "differ in length"),
        ("absent", {"z": 1.0}, "it names 'z', which is none of 'by'"),
        ("expressions", ["x", "by"], "2 expressions"),
    ):
        said = refusal(changed(pointwise_definition(), **{key: value}))
        assert said.startswith(f"field '{key}' of the definition of {NAME}: ")
        assert words in said, said


@pytest.mark.parametrize("make_one", [defined, pointwise_definition])
def test_a_field_of_one_side_alone_is_named(make_one: Callable[[], Definition]) -> None:
    definition = make_one()
    vars(definition)["colour"] = "red"
    assert refusal(definition).endswith(
        f"the definition of {NAME} has the field 'colour', which definitions of the kind "
        f"'{definition.kind}' do not have"
    )
    for name in set(vars(make_one())) - {"graph", "overloads", "location"}:
        definition = make_one()
        del vars(definition)[name]
        assert refusal(definition).endswith(
            f"field '{name}' of the definition of {NAME}: definitions of the kind "
            f"'{definition.kind}' in Python lack it"
        )


def test_values_of_types_that_no_field_has_are_refused() -> None:
    for value in ([1.5], {"d": 1.5j}, {"d": 1, "e": 1.5}, [1, "a"], 1j):
        with pytest.raises(
            ValueError,
            match="an operator definition gives 'alert' a value that is not a flag, number",
        ):
            make(changed(defined(), alert=value))
    for value in (None, 1, [1]):
        assert "field 'alert'" in (said := refusal(changed(defined(), alert=value)))
        assert said.endswith("has a type that definitions of the kind 'template' do not take")


def test_locations_name_the_modules_of_definitions() -> None:
    for name in tables.TABLES:
        module = import_module(f"torch_outboard.ops.{name}")
        for definition in module.definitions():
            file = definition.location.rpartition(":")[0]
            assert not file or "torch_outboard/ops/" in file
            assert not file.endswith(("tables.py", "expression.py", "definition.py"))
