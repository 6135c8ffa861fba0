"""Device kernels refuse what CPU refuses, in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.opinfo.checks import Call, EntryResult, attempt, error_difference
from tests.opinfo.refusals import check_dtypes, check_errors
from tests.opinfo.transplant import Transplant

ENTRIES = {op.full_name: op for op in op_db}
WITH_ERRORS = [name for name, op in ENTRIES.items() if op.error_inputs_func is not None]
# Those whose error inputs device kernels once took, and one of each other family.
ERRORS = """
arange cat complex gather heaviside index_select kthvalue masked_fill masked_scatter
masked_select nn.functional.avg_pool2d nn.functional.embedding
nn.functional.softshrink scatter scatter_add take
"""
# Those which ran on dtypes that CPU refuses, and some that did not.
DTYPES = """cumprod cumsum histogram nn.functional.pad.reflect nn.functional.pad.replicate
nn.functional.tanhshrink"""


def failures(result: EntryResult) -> list[str]:
    return [f"{f.check}, sample {f.sample}: {f.reason}" for f in result.failures]


def test_error_inputs(device: torch.device) -> None:
    wrong = {}
    for entry in ERRORS.split():
        result = EntryResult()
        check_errors(ENTRIES[entry], device, result)
        assert result.samples, entry
        wrong[entry] = failures(result)
    assert not {entry: found for entry, found in wrong.items() if found}


@pytest.mark.slow
@pytest.mark.parametrize("entry", WITH_ERRORS)
def test_error_inputs_of_every_entry(device: torch.device, entry: str) -> None:
    result = EntryResult()
    check_errors(ENTRIES[entry], device, result)
    assert not failures(result)


def test_dtypes(device: torch.device) -> None:
    wrong = {}
    for entry in DTYPES.split():
        result = EntryResult()
        check_dtypes(ENTRIES[entry], device, (torch.bool, torch.int32, torch.float16), result)
        wrong[entry] = failures(result)
    assert not {entry: found for entry, found in wrong.items() if found}


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype)


HALF, DOUBLE, BOOL, LONG = torch.float16, torch.float64, torch.bool, torch.int64

# What neither sizes nor the promotion of dtypes forbid.
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sub of bool": (torch.sub, (ones(3), ones(3, dtype=BOOL))),
    "rsub of bool": (torch.rsub, (ones(3, dtype=BOOL), ones(3))),
    "heaviside of two dtypes": (torch.heaviside, (ones(3), ones(3, dtype=DOUBLE))),
    "complex of two dtypes": (torch.complex, (ones(3), ones(3, dtype=DOUBLE))),
    "complex of integers": (torch.complex, (ones(3), ones(3, dtype=LONG))),
    "polar of two dtypes": (torch.polar, (ones(3), ones(3, dtype=DOUBLE))),
    "cross of two dtypes": (torch.linalg.cross, (ones(3), ones(3, dtype=DOUBLE))),
    "softshrink by less than nothing": (torch.nn.functional.softshrink, (ones(3), -0.5)),
    "softshrink by infinity": (torch.nn.functional.softshrink, (ones(3), float("inf"))),
    "a mask of numbers": (torch.masked_fill, (ones(3), ones(3), 2)),
    "a selection by numbers": (torch.masked_select, (ones(3), ones(3, dtype=torch.uint8))),
    "a source of another dtype": (
        torch.masked_scatter, (ones(3), ones(3, dtype=BOOL), ones(3, dtype=DOUBLE)),
    ),
    "several values to fill with": (torch.masked_fill, (ones(3), ones(3, dtype=BOOL), ones(3))),
    "places of int32": (torch.Tensor.put_, (ones(3), ones(1, dtype=torch.int32), ones(1))),
    "the same dimension twice": (torch.flip, (ones(3, 3), (0, -2))),
    "elements of bool": (torch.isin, (ones(3), ones(3, dtype=BOOL))),
    "sums of bool": (lambda x: torch.cumsum(x, 0, dtype=BOOL), (ones(3),)),
    "a step of the wrong sign": (
        lambda x: torch.arange(0, 0.5, -1, device=x.device, dtype=x.dtype), (ones(1),),
    ),
    "a slope that tells no sign": (
        torch.ops.aten.leaky_relu_backward, (ones(3), ones(3), -0.5, True),
    ),
    "a negative exponential of a result": (
        torch.ops.aten.elu_backward, (ones(3), -1.0, 1.0, 1.0, True, ones(3)),
    ),
}  # fmt: skip


def outcomes(device: torch.device, function: Callable[..., Any], arguments: tuple) -> list[Any]:
    calls = []
    for place in (torch.device("cpu"), device):
        move = Transplant(place)
        first, *rest = move(arguments)
        calls.append(Call(first, tuple(rest), {}, move.tensors, place))
    return [attempt(lambda call=call: call.of(function)) for call in calls]


def refusal_difference(
    device: torch.device, function: Callable[..., Any], arguments: tuple
) -> str | None:
    expected, actual = outcomes(device, function, arguments)
    if expected.error is None:
        return "CPU takes it"
    return error_difference(expected, actual)


def test_refused(device: torch.device) -> None:
    wrong = {case: refusal_difference(device, *REFUSED[case]) for case in REFUSED}
    assert not {case: difference for case, difference in wrong.items() if difference}


SAME_DTYPE = """abs bitwise_not ceil floor frac neg round sgn sign trunc nn.functional.gelu
nn.functional.hardshrink nn.functional.softplus nn.functional.softshrink"""


def test_results_are_not_cast(device: torch.device) -> None:
    wrong = {}
    for entry in SAME_DTYPE.split():
        op = ENTRIES[entry].op
        x = ones(3, dtype=LONG if entry == "bitwise_not" else torch.float32)
        arguments = (x, ones(3, dtype=DOUBLE))
        wrong[entry] = refusal_difference(device, lambda x, out, op=op: op(x, out=out), arguments)
    assert not {entry: difference for entry, difference in wrong.items() if difference}


OVERLAPPING: dict[str, Callable[[torch.Tensor], Any]] = {
    "gather": lambda x: torch.gather(x, 0, torch.zeros_like(x, dtype=LONG), out=x),
    "take": lambda x: torch.take(x, torch.zeros_like(x, dtype=LONG), out=x),
    "masked_select": lambda x: torch.masked_select(x, x > 0, out=x),
    "cat": lambda x: torch.cat([x, x], out=x),
    "cross": lambda x: torch.linalg.cross(x, x, out=x),
    "kthvalue": lambda x: torch.kthvalue(x, 1, out=(x[0], torch.empty_like(x[0], dtype=LONG))),
}


def test_results_that_are_arguments(device: torch.device) -> None:
    x = torch.arange(9.0).reshape(3, 3)
    wrong = {case: refusal_difference(device, OVERLAPPING[case], (x,)) for case in OVERLAPPING}
    assert not {case: difference for case, difference in wrong.items() if difference}


def test_numbers_that_a_dtype_cannot_hold(device: torch.device) -> None:
    for function, arguments in (
        (torch.masked_fill, (ones(3, dtype=LONG), ones(3, dtype=BOOL), 1e30)),
        (torch.masked_fill, (ones(3, dtype=HALF), ones(3, dtype=BOOL), 1e10)),
        (torch.clamp_min, (ones(3), 1e300)),
        (torch.clamp, (ones(3, dtype=torch.uint8), 0, 1000)),
    ):
        expected, actual = outcomes(device, function, arguments)
        assert error_difference(expected, actual) is None, (function, arguments)
        if expected.error is None:
            torch.testing.assert_close(actual.value.cpu(), expected.value)
