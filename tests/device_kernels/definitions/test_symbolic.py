"""Symbols of operator definitions: what C++ computes of their graphs, against Python's numbers."""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import torch_outboard
from torch_outboard import _C
from torch_outboard.ops import symbolic
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymInts,
    SymList,
    SymString,
    SymTensor,
    SymTensors,
    symbol,
    where,
)
from torch_outboard.ops.symbols import Graph, Value, argument

ROOT = Path(__file__).resolve().parents[3]
LEAST, MOST = -(2**63), 2**63 - 1
NEAR = [0, 1, -1, 2, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, MOST, LEAST, LEAST + 1]
INTEGERS = st.one_of(st.sampled_from(NEAR), st.integers(-100, 100), st.integers(LEAST, MOST))
REALS = st.floats(allow_nan=True, allow_infinity=True)

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

# What the names stand for where a test does not say it.
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


# ---- Numbers


class Overflow(Exception):
    """More than 64 bits, or a division by zero."""


def checked(value: int) -> int:
    if not LEAST <= value <= MOST:
        raise Overflow
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "min": min, "max": max, "abs": abs, "neg": operator.neg,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def expected(tree: Any, values: dict[str, int]) -> int:
    """What Python's integers give, where each step fits into 64 bits."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    name, *operands = tree
    if name == "where":
        condition, first, second = operands
        return expected(first if expected(condition, values) else second, values)
    if name in ("and", "or"):
        first, second = (lambda operand=operand: expected(operand, values) for operand in operands)
        return int(bool((first() and second()) if name == "and" else (first() or second())))
    operand_values = [expected(operand, values) for operand in operands]
    if name in ("//", "%") and operand_values[1] == 0:
        raise Overflow
    return checked(int(FUNCTIONS[name](*operand_values)))


def written(tree: Any) -> SymInt:
    """The same in symbols."""
    if isinstance(tree, (int, str)):
        return cast("SymInt", symbol(tree) if isinstance(tree, int) else argument(tree, "int"))
    name, *operands = tree
    first, *others = [written(operand) for operand in operands]
    if name == "where":
        return where(first != 0, others[0], others[1])
    if name in ("and", "or", "not"):
        conditions = [first != 0, *(other != 0 for other in others)]
        return symbolic.as_int(
            ~conditions[0] if name == "not" else
            conditions[0] & conditions[1] if name == "and" else conditions[0] | conditions[1]
        )  # fmt: skip
    functions = FUNCTIONS | {"min": symbolic.minimum, "max": symbolic.maximum}
    result = functions[name](first, *others)
    return symbolic.as_int(result) if isinstance(result, SymBool) else result


TREES = st.recursive(
    st.one_of(st.sampled_from("abc"), st.integers(0, 100), st.sampled_from([2**31, 2**53 + 1])),
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from([*(name for name in FUNCTIONS if name not in ("abs", "neg")),
                             "and", "or"]),
            inner,
            inner,
        ),
        st.tuples(st.sampled_from(["abs", "neg"]), inner),
        st.tuples(st.just("where"), inner, inner, inner),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(TREES, INTEGERS, INTEGERS, INTEGERS)
@example(("-", "a", "b"), LEAST, 1, 0)
@example(("//", "a", "b"), LEAST, -1, 0)
@example(("%", "a", "b"), LEAST, -1, 0)
@example(("//", 1, 0), 0, 0, 0)
@example(("-", "a", "b"), 2**53 + 3, 2**53, 0)
@example(("neg", "a"), LEAST, 0, 0)
@example(("abs", "a"), LEAST, 0, 0)
@example(("and", "a", ("//", 1, "b")), 0, 0, 0)
@example(("or", "a", ("//", 1, "b")), 1, 0, 0)
@example(("where", "a", ("//", 1, "b"), "c"), 0, 0, 5)
def test_integers_are_exact_or_refused(tree: Any, a: int, b: int, c: int) -> None:
    values = {"a": a, "b": b, "c": c}
    try:
        wanted = expected(tree, values)
    except Overflow:
        with pytest.raises(ValueError, match=r"64 bits|divides by zero"):
            evaluate(written(tree), **values)
    else:
        got = evaluate(written(tree), **values)
        assert (type(got), got) == (int, wanted)


@settings(max_examples=100, deadline=None)
@given(INTEGERS, REALS)
@example(2**53 + 1, float(2**53))
@example(MOST, float(2**63))
def test_integers_and_reals_compare_exactly(integer: int, real: float) -> None:
    for compare in (
        operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
    ):  # fmt: skip
        assert evaluate(compare(a, r), a=integer, r=real) == compare(integer, real)
        assert evaluate(compare(r, a), a=integer, r=real) == compare(real, integer)
        assert evaluate(compare(a, real), a=integer) == compare(integer, real)


@settings(max_examples=100, deadline=None)
@given(INTEGERS, INTEGERS)
def test_quotients_of_reals_are_not_rounded_twice(first: int, second: int) -> None:
    try:
        got = evaluate(a / b, a=first, b=second)
    except ValueError:
        assert second == 0 or int(float(first)) != first or int(float(second)) != second
    else:
        assert got == first / second
        assert isinstance(got, float)


@settings(max_examples=200, deadline=None)
@given(REALS)
def test_reals_round_to_integers_that_hold_them(x: float) -> None:
    for function, of_python in ((symbolic.floor, math.floor), (symbolic.ceil, math.ceil)):
        got = evaluate(function(r), r=x)
        if math.isfinite(x) and LEAST <= of_python(x) <= MOST:
            assert (type(got), got) == (int, of_python(x))
        else:
            assert isinstance(got, float)
            assert got == x or math.isnan(x)


@settings(max_examples=100, deadline=None)
@given(REALS)
def test_reals_that_are_whole_are_integers(x: float) -> None:
    whole = math.isfinite(x) and x == int(x) and LEAST <= x <= MOST
    if whole and int(x) <= MOST:
        got = evaluate(symbolic.as_int(r), r=x)
        assert (type(got), got) == (int, int(x))
    else:
        with pytest.raises(ValueError, match="integer of 64 bits is needed"):
            evaluate(symbolic.as_int(r), r=x)


# ---- Lists


@settings(max_examples=50, deadline=None)
@given(st.lists(INTEGERS, max_size=5))
def test_lists(given_numbers: list[int]) -> None:
    def value(of: Value) -> Any:
        return evaluate(of, numbers=given_numbers)

    assert value(numbers + ints(1)) == [*given_numbers, 1]
    assert value([1] + numbers) == [1, *given_numbers]  # noqa: RUF005
    assert value(numbers.len()) == len(given_numbers)
    for result, add, start in (
        (numbers.prod(), operator.mul, 1),
        (numbers.sum(), operator.add, 0),
    ):
        steps = [start]
        for number in given_numbers:
            steps.append(add(steps[-1], number))
        if all(LEAST <= step <= MOST for step in steps):
            assert value(result) == steps[-1]
        else:
            with pytest.raises(ValueError, match="64 bits"):
                value(result)
    if given_numbers:
        assert value(numbers.max()) == max(given_numbers)
        assert value(numbers.min()) == min(given_numbers)
    else:
        with pytest.raises(ValueError, match="extreme of an empty list"):
            value(numbers.max())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=5), INTEGERS, INTEGERS)
@example([1, 2, 3], LEAST, MOST)
@example([1, 2, 3], 2**32, 2**32)
@example([1, 2, 3], -1, 0)
def test_elements_and_parts_of_lists(given_numbers: list[int], first: int, second: int) -> None:
    def value(of: Value) -> Any:
        return evaluate(of, numbers=given_numbers, a=first, b=second)

    assert value(numbers[a:b]) == given_numbers[first:second]
    assert value(numbers[a:]) == given_numbers[first:]
    assert value(numbers[:b]) == given_numbers[:second]
    if -len(given_numbers) <= first < len(given_numbers):
        without = [*given_numbers]
        del without[first]
        replaced = [*given_numbers]
        replaced[first] = second
        assert value(numbers[a]) == given_numbers[first]
        assert value(numbers.drop(a)) == without
        assert value(numbers.replace(a, b)) == replaced
        return
    for result in (
        numbers[a],
        numbers.replace(a, b),
        *([numbers.drop(a)] if given_numbers else []),
    ):
        with pytest.raises(ValueError, match="asks for element"):
            value(result)


def test_what_makes_no_sense_is_refused() -> None:
    for value, words in (
        (symbolic.full(a, 1), "a list of 4294967296 numbers"),
        (symbolic.full(-1, 1), "a list of -1 numbers"),
        (ints(1, 2)[a], "element 4294967296 of a list of 2"),
        (ints(1).replace(a, 2), "element 4294967296 of a list of 1"),
        (ints(1, 2)[symbolic.as_int(r)], "integer of 64 bits is needed"),
        (ints(1).drop(symbolic.as_int(r)), "integer of 64 bits is needed"),
        (symbolic.expand(ints(1, 2), 3), "needs a list of 3"),
        (ints(1, 2).padded(ints(0, -3)), "negative size"),
        (ints(1).padded(ints(0, 0, 0, 0)), "element -2 of a list of 1"),
        (symbolic.log2_ceil(MOST), "large logarithm"),
        (absent.numel(), "needs a tensor"),
        (maybe + 1, "needs a number"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(value, a=2**32, r=0.5)
    for value, error in (
        (symbolic.wrap(a, 3), IndexError),
        (tensor.size(3), IndexError),
        (symbolic.broadcast_shapes([2], [3]), RuntimeError),
    ):
        with pytest.raises(error):
            evaluate(value, a=2**32)


# ---- Every operation

# What each operation of C++ is reached by, and its value for VALUES. `many` has values in calls
# alone (test_lists_of_tensors).
EXAMPLES: dict[str, list[tuple[Value, Any]]] = {
    "none": [(maybe == None, 1), (b != None, 1)],  # noqa: E711
    "number": [(7, 7), (0.5, 0.5), (True, 1)],
    "string": [(mode == "sum", 0)],
    "name": [(b, 9), (r, 1.5), (numbers, [5, 6, 7]), (flag, 1), (where(True, b, c), 9)],
    "list": [([1, a, 3], [1, -1, 3]), (symbolic.ints([c, 2]), [3, 2]), ([], [])],
    "element": [(numbers[0] + numbers[-1], 12), (reals[1], 2.0)],
    "slice": [(numbers[:-1], [5, 6]), (numbers[1:2], [6])],
    "tail": [(numbers[1:], [6, 7]), (numbers[:], [5, 6, 7])],
    "concat": [(numbers + [8], [5, 6, 7, 8]), ([4] + numbers, [4, 5, 6, 7])],  # noqa: RUF005
    "where": [
        (where(a < 0, 10, 20), 10), (where(flag, 1.5, 2), 1.5), (where(a > 0, numbers, [1]), [1]),
        (where(a > 0, tensor, tensor).dim(), 3), (where(a < 0, flag, False), 1),
    ],
    "or": [(flag | (a > 0), 1), (False | (a > 0), 0), (symbolic.either_given(absent, tensor), 1)],
    "and": [(flag & (a > 0), 0), (True & flag, 1)],
    "not": [(~flag, 0), (~symbolic.given(absent), 1), (~symbolic.as_flag(False), 1)],
    "neg": [(-b, -9), (-r, -1.5)],
    "add": [(a + 2, 1), (2 + a, 1), (r + 1, 2.5), (1 + r, 2.5), (symbolic.ceil_div(b, 2), 5)],
    "sub": [(b - c, 6), (1 - b, -8), (r - 1, 0.5), (1 - r, -0.5)],
    "mul": [(b * c, 27), (2 * c, 6), (r * 2, 3.0), (2 * r, 3.0)],
    "truediv": [(b / 2, 4.5), (1 / (c - 1), 0.5), (r / 2, 0.75), (3 / r, 2.0)],
    "floordiv": [(b // 2, 4), (-b // 2, -5), (7 // c, 2)],
    "mod": [(-b % 4, 3), (7 % c, 1)],
    "eq": [(mode == "mean", 1), (numbers == [5, 6], 0), (numbers == ints(5, 6, 7), 1),
           (tensor == tensor, 1), (flag == True, 1)],  # noqa: E712
    "ne": [(a != -1, 0), (mode != "sum", 1)],
    "lt": [(a < 0, 1), (r < a, 0)],
    "le": [(c <= 3, 1), (r <= 1, 0)],
    "gt": [(c > 3, 0), (r > 1, 1)],
    "ge": [(c >= 3, 1), (r >= 2, 0)],
    "minimum": [(symbolic.minimum(b, c), 3), (symbolic.minimum(r, b), 1.5),
                (numbers.clamp_max(6), [5, 6, 6])],
    "maximum": [(symbolic.maximum(b, c), 9), (symbolic.maximum(2, r), 2),
                (numbers.clamp_min(6), [6, 6, 7])],
    "floor": [(symbolic.floor(-r), -2)],
    "ceil": [(symbolic.ceil(-r), -1)],
    "abs": [(abs(a), 1), (abs(-r), 1.5)],
    "float": [(symbolic.as_float(a), -1.0), (symbolic.as_float(symbol(2**53 + 1)), float(2**53))],
    "int": [(symbolic.as_int(r + 0.5), 2), (symbolic.as_int(a < 0) + 1, 2)],
    "log": [(symbolic.log(a + 2), 0.0), (symbolic.log(symbolic.as_float(0)), -math.inf)],
    "log1p": [(symbolic.log1p(a + 1), 0.0)],
    "log2_ceil": [(symbolic.log2_ceil(b), 4), (symbolic.log2_ceil(8), 3),
                  (symbolic.log2_ceil(symbol(2**40 + 1)), 41)],
    "given": [(symbolic.given(absent), 0), (symbolic.given(tensor), 1), (symbolic.given(maybe), 0),
              (symbolic.fits(absent, [9]), 1), (symbolic.fits(tensor, [9]), 0)],
    "either": [(symbolic.either(maybe, 7), 7), (symbolic.either(b, 7), 9),
               (symbolic.either(numbers, [1]), [5, 6, 7])],
    "numel": [(tensor.numel(), 24)],
    "dim": [(tensor.dim(), 3), (symbolic.as_tensor(argument("tensor", "Tensor")).dim(), 3)],
    "size": [(tensor.size(-1), 4), (tensor.size(a), 4)],
    "stride": [(tensor.stride(0), 12)],
    "shape": [(tensor.shape, [2, 3, 4]), (tensor.shape.prod(), 24)],
    "is_contiguous": [(tensor.is_contiguous(), 1)],
    "element_size": [(tensor.element_size(), 4)],
    "is_floating_point": [(tensor.is_floating_point(), 1)],
    "has_dtype": [
        (symbolic.has_dtype(tensor, torch.float32, torch.int32), 1),
        (symbolic.has_dtype(tensor, torch.int32), 0), (symbolic.has_dtype(absent, torch.int32), 1),
        (symbolic.has_other_dtype(tensor, torch.float32), 0),
    ],
    # An argument of type ScalarType is the number of a dtype.
    "as_dtype": [
        (symbolic.has_dtype(c, torch.int32), 1), (symbolic.has_dtype(c, torch.int64), 0),
        (symbolic.has_dtype(maybe, torch.int64), 1), (symbolic.has_other_dtype(c, torch.int64), 1),
        (symbolic.same_dtype(c, tensor), 0), (symbolic.same_dtype(symbol(6), tensor), 1),
        (symbolic.same_dtype(maybe, tensor), 1),
    ],
    "same_dtype": [
        (symbolic.same_dtype(tensor, tensor), 1), (symbolic.same_dtype(tensor, absent), 1),
    ],
    "len": [(numbers.len(), 3), (reals.len(), 2)],
    "prod": [(numbers.prod(), 210), (reals.prod(), 1.0)],
    "sum": [(numbers.sum(), 18), (reals.sum(), 2.5)],
    "min": [(numbers.min(), 5)],
    "max": [(numbers.max(), 7), (reals.max(), 2.0)],
    "drop": [(tensor.shape.drop(1), [2, 4]), (ints().drop(0), [])],
    "replace": [(numbers.replace(0, 9), [9, 6, 7])],
    "full": [(symbolic.full(c, 0), [0, 0, 0])],
    "expand": [(symbolic.expand(2, 3), [2, 2, 2]), (symbolic.expand(ints(4), 2), [4, 4]),
               (symbolic.expand(numbers, 3), [5, 6, 7]), (symbolic.expand(r, 2), [1.5, 1.5])],
    "broadcast": [(symbolic.broadcast_shapes([c, 1], [4]), [3, 4])],
    "padded": [
        (ints(2, 3).padded(ints(1, 1)), [2, 5]), (ints(2, 3).padded(ints(0, 1, 2, 3)), [7, 4]),
    ],
    "wrap": [(symbolic.wrap(a, tensor.dim()), 2)],
    "distinct": [(symbolic.distinct(ints(0, a), 3), 1), (symbolic.distinct(ints(2, -1), 3), 0),
                 (symbolic.distinct(numbers, 3), 0)],
}  # fmt: skip
OF_LISTS_OF_TENSORS = {"tensor", "given_each"}


def operations_of(value: Value) -> set[str]:
    graph = Graph()
    graph.add(value)
    return {name for name, _, _ in graph.nodes}


def test_every_operation() -> None:
    text = (ROOT / "csrc/device_kernels/expressions/expression.h").read_text()
    assert set(re.findall(r'OPERATION\(\w+, "(\w+)", -?\d\)', text)) == {
        *EXAMPLES,
        *OF_LISTS_OF_TENSORS,
    }
    for operation, examples in EXAMPLES.items():
        for value, wanted in examples:
            got = evaluate(value)
            assert operation in operations_of(value)
            assert (operation, type(got), got) == (operation, type(wanted), wanted)


def test_every_function_and_method_has_an_example_and_stands_in_the_document() -> None:
    page = (ROOT / "docs" / "definitions.md").read_text()
    source = inspect.getsource(inspect.getmodule(operations_of))
    functions = {
        name for name in symbolic.__all__ if inspect.isfunction(getattr(symbolic, name))
    }  # fmt: skip
    methods = {
        f".{name}" for kind in (SymList, SymTensor, SymTensors) for name in vars(kind)
        if not name.startswith("_")
    }  # fmt: skip
    assert len(functions) > 20
    assert len(methods) > 15
    for name in functions | methods:
        assert f"{name}(" in source or name == ".shape", name
        assert f"{name}(" in page or name == ".shape", name


def test_lists_of_tensors(device: torch.device) -> None:
    """Their symbols have values in calls alone: the shape of a result shows them."""
    computed: list[tuple[Symbol, int]] = [
        (many.len(), 3), (many.given().sum(), 2), (many.given()[1], 0), (many[0].numel(), 4),
        (many[-1].size(0), 2), (symbolic.given(many[1]), 0), (symbolic.given(many[7]), 0),
        (where(symbolic.given(many[7]), many[7].numel(), 5), 5),
        (symbolic.has_dtype(many, torch.float32), 1), (symbolic.has_dtype(many, torch.int32), 0),
        (symbolic.has_other_dtype(many, torch.float32), 0), (symbolic.same_dtype(many, tensor), 1),
        (symbolic.same_dtype(many, many), 1),
    ]  # fmt: skip
    used = set().union(*(operations_of(value) for value, _ in computed))
    assert used >= OF_LISTS_OF_TENSORS
    with torch.library._scoped_library("outboard_symbolic", "DEF") as library:
        library.define("shape(Tensor tensor, Tensor?[] many) -> Tensor")

        @torch_outboard.kernel("outboard_symbolic::shape", source="")
        def shape(plan: torch_outboard.Plan, tensor: SymTensor, many: SymTensors) -> None:
            plan.result("out", symbolic.ints(cast("SymInt", value) for value, _ in computed))

        with shape:
            x = torch.ones(1, device=device)
            many_tensors = [torch.ones(2, 2, device=device), None, torch.ones(2, 3, device=device)]
            result = torch.ops.outboard_symbolic.shape(x, many_tensors)
    assert list(result.shape) == [wanted for _, wanted in computed]


# ---- Kinds


def test_arguments_are_symbols_of_their_types() -> None:
    kinds = {
        "int": SymInt, "Optional[int]": SymInt, "float": SymFloat, "number": SymFloat,
        "Optional[number]": SymFloat, "bool": SymBool, "str": SymString, "Optional[str]": SymString,
        "Tensor": SymTensor, "Optional[Tensor]": SymTensor, "List[Tensor]": SymTensors,
        "List[Optional[Tensor]]": SymTensors, "Generator": Symbol, "Device": Symbol,
    }  # fmt: skip
    for kind, wanted in kinds.items():
        made = argument("x", kind)
        assert (kind, type(made), made.optional) == (kind, wanted, kind.startswith("Optional"))
    elements = {
        "List[int]": SymInt, "Optional[List[int]]": SymInt, "List[float]": SymFloat,
        "Optional[List[float]]": SymFloat, "List[bool]": SymBool, "List[number]": SymFloat,
    }  # fmt: skip
    for kind, element in elements.items():
        made_list = argument("x", kind)
        assert isinstance(made_list, SymList)
        assert type(made_list[0]) is element, kind
        assert made_list.optional == kind.startswith("Optional")


def test_a_symbol_has_no_truth_value() -> None:
    words = (
        r"a symbol has no truth value, since it is known at a call alone; use where\(condition, "
        r"a, b\) in place of if, and &, \|, ~ in place of and, or, not"
    )
    uses: list[Callable[[], Any]] = [
        lambda: 1 if a > 0 else 2, lambda: flag and a, lambda: flag or a, lambda: not a,
        lambda: max(a, 1), lambda: a in (1, 2), lambda: 0 < a < 5, lambda: assert_(a == 1),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(TypeError, match=words):
            use()


def assert_(condition: object) -> None:
    assert condition


# What is wrong whatever the call is.
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: tensor + 1, "unsupported operand"),
    (lambda: mode * 2, "unsupported operand"),
    (lambda: a**2, "unsupported operand"),
    (lambda: a & True, "unsupported operand"),
    (lambda: ~a, "bad operand"),
    (lambda: a[0], "not subscriptable"),
    (lambda: a + 1.5, "SymFloat is given where SymInt is needed"),
    (lambda: a + r, "SymFloat 'r' is given where SymInt is needed"),
    (lambda: a // 2.0, "SymFloat is given where SymInt is needed"),
    (lambda: a + mode, "SymString 'mode' is given where SymInt is needed"),
    (lambda: r * numbers, "SymList 'numbers' is given where a number is needed"),
    (lambda: numbers + 1, "SymInt is given where a list is needed"),
    (lambda: numbers[mode:], "SymString 'mode' is given where SymInt is needed"),
    (lambda: numbers[0.5], "SymFloat is given where SymInt is needed"),
    (lambda: numbers[::2], "a part of a symbolic list has no step"),
    (lambda: numbers.clamp_min(numbers), "SymList 'numbers' is given where a number is needed"),
    (lambda: numbers.drop(r), "SymFloat 'r' is given where SymInt is needed"),
    (lambda: symbolic.ints([numbers]), "SymList 'numbers' is given where SymInt is needed"),
    (lambda: tensor.size(1.5), "SymFloat is given where SymInt is needed"),
    (lambda: where(a, 1, 2), "SymInt 'a' is given where SymBool is needed"),
    (lambda: symbolic.minimum(numbers, 2), "SymList 'numbers' is given where a number is needed"),
    (lambda: symbolic.floor(numbers), "SymList 'numbers' is given where a number is needed"),
    (lambda: symbolic.full(1.5, 1), "SymFloat is given where SymInt is needed"),
    (lambda: symbolic.wrap(1.5, 3), "SymFloat is given where SymInt is needed"),
    (lambda: a == mode, "SymInt 'a' cannot be compared with SymString 'mode'"),
    (lambda: tensor == numbers, "SymTensor 'tensor' cannot be compared with SymList 'numbers'"),
    (lambda: mode != 3, "SymString 'mode' cannot be compared with SymInt"),
    (lambda: list(numbers), "SymList cannot be iterated over"),
    (lambda: range(a), "cannot be interpreted as an integer"),
    (lambda: int(a), "must be a string"),
    (lambda: symbol(None), "None is no symbol, number, flag, string or list of those"),
    (lambda: symbol({}), "no symbol"),
    (lambda: symbolic.as_tensor(numbers), "SymList 'numbers' is given where SymTensor is needed"),
    (lambda: symbolic.as_flag(a), "SymInt 'a' is given where SymBool is needed"),
    (lambda: [numbers + part for part in (["x"],)], "SymString is given where a number is needed"),
    (lambda: numbers + reals, "SymList 'reals' of reals is given where a list of integers is"),
    (lambda: symbol([numbers, 1]), "SymList 'numbers' is given where a number is needed"),
    (lambda: numbers.replace(0, r), "SymFloat 'r' is given where SymInt is needed"),
    (lambda: where(flag, numbers, 1), "SymList 'numbers' and SymInt are of different kinds"),
    (lambda: where(flag, tensor, mode), "SymTensor 'tensor' and SymString 'mode' are of different"),
    (lambda: symbolic.either(maybe, "x"), "SymInt 'maybe' and SymString are of different kinds"),
    (lambda: symbolic.expand(tensor, 3), "SymTensor 'tensor' is given where a number is needed"),
    (lambda: symbolic.distinct(a, 3), "SymInt 'a' is given where a list is needed"),
    (lambda: symbolic.given(None), "None is no symbol"),
]  # fmt: skip


def test_wrong_kinds_are_refused_when_a_function_is_traced() -> None:
    for use, words in WRONG:
        with pytest.raises(TypeError, match=words):
            use()


# ---- Graphs


def test_what_is_used_often_is_added_once() -> None:
    doubled = a
    for _ in range(60):
        doubled = doubled + doubled
    graph = Graph()
    graph.add(doubled)
    assert len(graph.nodes) == 61


def test_constants_keep_their_signs_and_bits() -> None:
    for zero in (0.0, -0.0):
        assert evaluate(symbol([0.0, -0.0, 1 / symbol(zero)]))[2] == math.copysign(math.inf, zero)
    for number in (2**63, LEAST - 1):
        with pytest.raises(ValueError, match="needs more than 64 bits"):
            symbol(number)


def test_equal_operations_are_one_node() -> None:
    graph = Graph()
    first = graph.add((a + 1) * (a + 1))
    assert [name for name, _, _ in graph.nodes] == ["name", "number", "add", "mul"]
    assert graph.add((a + 1) * (a + 1)) == first
    assert graph.add(1) != graph.add(1.0)
    assert all(child < index for index, (_, children, _) in enumerate(graph.nodes)
               for child in children)  # fmt: skip


def test_graphs_are_checked_in_cpp() -> None:
    for nodes, node, words in (
        ([("plus", [], None)], 0, "there is no operation 'plus'"),
        ([("add", [0, 1], None)], 0, "there is no node 0"),
        ([("number", [], 1)], 1, "there is no node 1"),
        ([("number", [], 1)], -1, "there is no node -1"),
    ):
        with pytest.raises(ValueError, match=words):
            _C.testing.evaluate_expression(nodes, node, {})


# ---- An operator of which all values come from them


@pytest.mark.parametrize("start", [2**53, 2**31 - 1, -(2**53) - 3, MOST - 3, LEAST])
def test_arange_by_them(device: torch.device, start: int) -> None:
    for arguments, dtype in (
        *(((start, start + 3), dtype) for dtype in (None, torch.float64, torch.int32)),
        ((start + 3, start, -2), torch.int64),
        ((start, start + 3, MOST), torch.int64),
    ):
        try:
            wanted = torch.arange(*arguments, dtype=dtype)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            with pytest.raises(type(error)):
                torch.arange(*arguments, dtype=dtype, device=device).cpu()
        else:
            got = torch.arange(*arguments, dtype=dtype, device=device)
            torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=0)
