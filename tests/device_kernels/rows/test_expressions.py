"""Expressions in rows of the operator tables, against Python's numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torch_outboard import _C

LEAST, MOST = -(2**63), 2**63 - 1
NEAR = [0, 1, -1, 2, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, MOST, LEAST, LEAST + 1]
INTEGERS = st.one_of(st.sampled_from(NEAR), st.integers(-100, 100), st.integers(LEAST, MOST))
REALS = st.floats(allow_nan=True, allow_infinity=True)


class Overflow(Exception):
    """More than 64 bits, or a division by zero."""


def evaluate(text: str, **values: Any) -> Any:
    return _C.testing.evaluate_expression(text, list(values.items()))


def checked(value: int) -> int:
    if not LEAST <= value <= MOST:
        raise Overflow
    return value


def expected(tree: Any, values: dict[str, int]) -> int:
    """What Python's integers give, where each step fits into 64 bits."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    name, *operands = tree
    if name == "?":
        condition, first, second = operands
        return expected(first if expected(condition, values) else second, values)
    numbers = [expected(operand, values) for operand in operands]
    if name in ("//", "%") and numbers[1] == 0:
        raise Overflow
    functions = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
        "%": operator.mod, "min": min, "max": max, "abs": abs, "neg": operator.neg,
        "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
        "==": operator.eq, "!=": operator.ne,
    }  # fmt: skip
    return checked(int(functions[name](*numbers)))


def written(tree: Any) -> str:
    if isinstance(tree, (int, str)):
        return str(tree)
    name, *operands = tree
    texts = [written(operand) for operand in operands]
    if name == "?":
        return "({} ? {} : {})".format(*texts)
    if name == "neg":
        return f"(-{texts[0]})"
    if name in ("min", "max", "abs"):
        return f"{name}({', '.join(texts)})"
    return f"({texts[0]} {name} {texts[1]})"


NAMES = ("a", "b", "c")
TREES = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(0, 100), st.sampled_from([2**31, 2**53 + 1])),
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from(
                ["+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=", "min", "max"]
            ),
            inner,
            inner,
        ),
        st.tuples(st.sampled_from(["abs", "neg"]), inner),
        st.tuples(st.just("?"), inner, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(TREES, INTEGERS, INTEGERS, INTEGERS)
@example(("-", "a", "b"), LEAST, 1, 0)
@example(("//", "a", "b"), LEAST, -1, 0)
@example(("%", "a", "b"), LEAST, -1, 0)
@example(("//", 1, 0), 0, 0, 0)
@example(("-", "a", "b"), 2**53 + 3, 2**53, 0)
@example(("neg", "a"), LEAST, 0, 0)
def test_integers_are_exact_or_refused(tree, a, b, c):
    values = {"a": a, "b": b, "c": c}
    try:
        wanted = expected(tree, values)
    except Overflow:
        with pytest.raises(ValueError, match="an expression of a row"):
            evaluate(written(tree), **values)
    else:
        got = evaluate(written(tree), **values)
        assert (type(got), got) == (int, wanted)


@settings(max_examples=100, deadline=None)
@given(INTEGERS, REALS)
@example(2**53 + 1, float(2**53))
@example(MOST, float(2**63))
def test_integers_and_reals_compare_exactly(integer, real):
    for text, function in (
        ("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge),
        ("==", operator.eq), ("!=", operator.ne),
    ):  # fmt: skip
        assert evaluate(f"i {text} r", i=integer, r=real) == function(integer, real)
        assert evaluate(f"r {text} i", i=integer, r=real) == function(real, integer)


@settings(max_examples=100, deadline=None)
@given(INTEGERS, INTEGERS)
def test_quotients_of_reals_are_not_rounded_twice(a, b):
    try:
        got = evaluate("a / b", a=a, b=b)
    except ValueError:
        assert b == 0 or int(float(a)) != a or int(float(b)) != b
    else:
        assert got == a / b
        assert isinstance(got, float)


@settings(max_examples=200, deadline=None)
@given(REALS)
def test_reals_round_to_integers_that_hold_them(x):
    for name, function in (("floor", math.floor), ("ceil", math.ceil)):
        got = evaluate(f"{name}(x)", x=x)
        if math.isfinite(x) and LEAST <= function(x) <= MOST:
            assert (type(got), got) == (int, function(x))
        else:
            assert isinstance(got, float)
            assert got == x or math.isnan(x)


@settings(max_examples=50, deadline=None)
@given(st.lists(INTEGERS, max_size=5))
def test_lists(numbers):
    assert evaluate("l + [1]", l=numbers) == [*numbers, 1]
    for name, wanted in (("prod", math.prod(numbers)), ("sum", sum(numbers))):
        steps = [math.prod(numbers[:k]) if name == "prod" else sum(numbers[:k])
                 for k in range(len(numbers) + 1)]  # fmt: skip
        if all(LEAST <= step <= MOST for step in steps):
            assert evaluate(f"{name}(l)", l=numbers) == wanted
        else:
            with pytest.raises(ValueError, match="64 bits"):
                evaluate(f"{name}(l)", l=numbers)
    if numbers:
        assert evaluate("max_of(l)", l=numbers) == max(numbers)


def test_what_makes_no_sense_is_refused():
    for text in (
        "fill(1, a)", "[1, 2][a]", "set([1], a, 2)", "wrap(a, 3)", "9223372036854775808",
        "fill(1, -1)", "[1][0.5]", "drop([1], 0.5)",
    ):  # fmt: skip
        with pytest.raises((ValueError, IndexError)):
            evaluate(text, a=2**32)


def test_parts_of_lists():
    assert evaluate("l[a:b]", l=[1, 2, 3], a=LEAST, b=MOST) == [1, 2, 3]
    assert evaluate("l[a:]", l=[1, 2, 3], a=2**32) == []
    assert evaluate("log2_ceil(a)", a=2**40 + 1) == 41
    assert evaluate("real(a)", a=2**53 + 1) == float(2**53)


@pytest.mark.parametrize("start", [2**53, 2**31 - 1, -(2**53) - 3, MOST - 3, LEAST])
def test_arange_by_them(device, start):
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
