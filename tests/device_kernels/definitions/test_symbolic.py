"""Symbols of operator definitions: every operation, their kinds, and the graphs that they make."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

import torch_outboard
from tests.device_kernels.definitions.symbols import (
    LEAST,
    a,
    absent,
    b,
    c,
    evaluate,
    flag,
    ints,
    many,
    maybe,
    mode,
    numbers,
    r,
    reals,
    tensor,
)
from tests.support import ROOT
from torch_outboard import _C
from torch_outboard.ops import symbolic
from torch_outboard.ops.definition import Graph, argument
from torch_outboard.ops.symbolic import (
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymList,
    SymString,
    SymTensor,
    SymTensors,
    Value,
    symbol,
    where,
)

# ---- Every operation

# Expressions that reach each operation of C++, and their values for VALUES. `many` has values
# in calls alone (test_lists_of_tensors).
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
    "expand": [(symbolic.expand(2, c), [2, 2, 2]), (symbolic.expand(ints(4), 2), [4, 4]),
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
    text = (ROOT / "csrc/device_kernels/expressions/expression.cpp").read_text()
    assert set(re.findall(r'^    {"(\w+)", -?\d,', text, re.MULTILINE)) == {
        *EXAMPLES,
        *OF_LISTS_OF_TENSORS,
    }
    for operation, examples in EXAMPLES.items():
        for value, wanted in examples:
            got = evaluate(value)
            assert operation in operations_of(value)
            assert (operation, type(got), got) == (operation, type(wanted), wanted)


def test_every_function_and_method_has_an_example_and_stands_in_the_document() -> None:
    page = (ROOT / "docs" / "kernels.md").read_text()
    source = inspect.getsource(inspect.getmodule(operations_of))
    functions = {
        name for name, value in inspect.getmembers(symbolic, inspect.isfunction)
        if value.__module__ == symbolic.__name__ and not name.startswith("_")
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
        r"a symbol has no truth value, because only a call knows it; use where\(condition, a, b\) "
        r"for `if`, and &, \|, ~ for `and`, `or`, `not`"
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


# Errors that do not depend on the call.
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
    (lambda: numbers[::2], "a slice of a symbolic list takes no step"),
    (lambda: numbers.clamp_min(numbers), "SymList 'numbers' is given where a number is needed"),
    (lambda: numbers.drop(r), "SymFloat 'r' is given where SymInt is needed"),
    (lambda: symbolic.ints([numbers]), "SymList 'numbers' is given where SymInt is needed"),
    (lambda: tensor.size(1.5), "SymFloat is given where SymInt is needed"),
    (lambda: where(a, 1, 2), "SymInt 'a' is given where SymBool is needed"),
    (lambda: symbolic.minimum(numbers, 2), "SymList 'numbers' is given where a number is needed"),
    (lambda: symbolic.floor(numbers), "SymList 'numbers' is given where a number is needed"),
    (lambda: symbolic.expand(1, 1.5), "SymFloat is given where SymInt is needed"),
    (lambda: symbolic.wrap(1.5, 3), "SymFloat is given where SymInt is needed"),
    (lambda: a == mode, "SymInt 'a' cannot be compared with SymString 'mode'"),
    (lambda: tensor == numbers, "SymTensor 'tensor' cannot be compared with SymList 'numbers'"),
    (lambda: mode != 3, "SymString 'mode' cannot be compared with SymInt"),
    (lambda: list(numbers), "SymList cannot be iterated over"),
    (lambda: range(a), "cannot be interpreted as an integer"),
    (lambda: int(a), "must be a string"),
    (lambda: symbol(None), "None is not a symbol, number, flag, string or list of those"),
    (lambda: symbol({}), "is not a symbol"),
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
    (lambda: symbolic.given(None), "None is not a symbol"),
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
