"""Numbers and lists of operator definitions, as C++ computes them, against Python's."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.device_kernels.definitions.symbols import (
    LEAST,
    MOST,
    a,
    absent,
    b,
    evaluate,
    ints,
    maybe,
    numbers,
    r,
    tensor,
)
from torch_outboard.ops import symbolic
from torch_outboard.ops.definition import argument
from torch_outboard.ops.symbolic import (
    SymBool,
    SymInt,
    Value,
    symbol,
    where,
)

NEAR = [0, 1, -1, 2, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, MOST, LEAST, LEAST + 1]
INTEGERS = st.one_of(st.sampled_from(NEAR), st.integers(-100, 100), st.integers(LEAST, MOST))
REALS = st.floats(allow_nan=True, allow_infinity=True)


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
    """Results by Python's integers, where each step fits into 64 bits."""
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
        with pytest.raises(ValueError, match="minimum or maximum of an empty list"):
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
        with pytest.raises(ValueError, match="takes element"):
            value(result)


def test_what_makes_no_sense_is_refused() -> None:
    for value, words in (
        (symbolic.expand(1, a), "a list of 4294967296 numbers"),
        (symbolic.expand(1, -1), "a list of -1 numbers"),
        (ints(1, 2)[a], "element 4294967296 of a list of 2"),
        (ints(1).replace(a, 2), "element 4294967296 of a list of 1"),
        (ints(1, 2)[symbolic.as_int(r)], "integer of 64 bits is needed"),
        (ints(1).drop(symbolic.as_int(r)), "integer of 64 bits is needed"),
        (symbolic.expand(ints(1, 2), 3), "a list of 3"),
        (ints(1, 2).padded(ints(0, -3)), "pads a size below 0"),
        (ints(1).padded(ints(0, 0, 0, 0)), "element -2 of a list of 1"),
        (symbolic.log2_ceil(MOST), "log2_ceil of a number above"),
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


# ---- An operator with all values from them


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
