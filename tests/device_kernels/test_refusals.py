"""Device kernels refuse what CPU refuses, in the same way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from tests.opinfo.checks import Call, attempt, error_difference
from tests.opinfo.transplant import Transplant


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype)


DOUBLE, BOOL, LONG = torch.float64, torch.bool, torch.int64

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
    "_foreach_sub of a flag": (torch._foreach_sub, ([ones(3), ones(2)], True)),
    "_foreach_sub_ of flags": (torch._foreach_sub_, ([ones(3), ones(2)], [True, False])),
    "_foreach_sub of tensors of flags": (torch._foreach_sub, ([ones(3)], [ones(3, dtype=BOOL)])),
    "_foreach_sub_ from flags": (torch._foreach_sub_, ([ones(3, dtype=BOOL)], [ones(3)])),
    "a fill beyond integers": (
        torch.index_fill, (ones(3, dtype=LONG), 0, torch.tensor([0]), 1e30),
    ),
    "an index into nothing": (lambda x: x[:, [0, 1]], (ones(10, 0),)),
    "what is written into nothing": (
        lambda x: x.index_put_((torch.tensor([0], device=x.device),), ones(1).to(x.device)),
        (ones(0),),
    ),
    "a reflection of all there is": (torch.nn.functional.pad, (ones(1, 3), (3, 3), "reflect")),
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


def test_results_are_not_cast(device: torch.device) -> None:
    wrong = {}
    for name in (
        "abs", "bitwise_not", "ceil", "floor", "frac", "neg", "round", "sgn", "sign", "trunc",
        "gelu", "hardshrink", "softplus", "softshrink",
    ):  # fmt: skip
        operator = getattr(torch.ops.aten, name)
        x = ones(3, dtype=LONG if name == "bitwise_not" else torch.float32)
        arguments = (x, ones(3, dtype=DOUBLE))
        wrong[name] = refusal_difference(
            device, lambda x, out, operator=operator: operator(x, out=out), arguments
        )
    assert not {name: difference for name, difference in wrong.items() if difference}


# What is written in place overlaps what is read; `i` is an index tensor of every place.
OVERLAPPING_IN_PLACE: dict[str, Callable[[torch.Tensor], Any]] = {
    "index_fill_": lambda i: i.index_fill_(0, i, 0),
    "index_copy_": lambda i: i.index_copy_(0, i, i),
    "index_copy_ of a source": lambda i: i.index_copy_(0, i.clone(), i),
    "index_add_": lambda i: i.index_add_(0, i.clone(), i),
    "index_reduce_": lambda i: i.index_reduce_(0, i.clone(), i, "amax"),
    "index_put_": lambda i: i.index_put_((i,), i.clone()),
    "index_put_ of values": lambda i: i.index_put_((i.clone(),), i),
    "scatter_ of a number": lambda i: i.scatter_(0, i, 0),
    "scatter_": lambda i: i.scatter_(0, i.clone(), i),
    "scatter_add_": lambda i: i.scatter_add_(0, i, i.clone()),
    "scatter_reduce_": lambda i: i.scatter_reduce_(0, i, i.clone(), "amin"),
    "put_": lambda i: i.put_(i, i.clone()),
    "masked_scatter_": lambda i: i.masked_scatter_(i > 1, i),
    "masked_fill_": lambda i: i.expand(2, 3).masked_fill_(i > 1, 7),
    "elements of the result": lambda i: i[:1].expand(3).scatter_(0, i.clone(), 1),
    "cumsum_": lambda i: i[:1].expand(3).cumsum_(0),
    "tril_": lambda i: i[:1].expand(3, 3).tril_(),
    "add_ to a part": lambda i: i[1:].add_(i[:-1]),
}


def test_results_that_overlap_arguments(device: torch.device) -> None:
    x = torch.tensor([2, 1, 0])
    wrong = {}
    for case, function in OVERLAPPING_IN_PLACE.items():
        expected, actual = outcomes(device, function, (x.clone(),))
        wrong[case] = error_difference(expected, actual)
        if expected.error is None and wrong[case] is None:
            wrong[case] = None if torch.equal(actual.value.cpu(), expected.value) else "values"
    assert not {case: difference for case, difference in wrong.items() if difference}


def empty_index(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=LONG, device=x.device)


EMPTY_INDEX: dict[str, Callable[..., torch.Tensor]] = {
    "index_add": lambda x, i, none: x.index_add(-1, i, none),
    "index_copy": lambda x, i, none: x.index_copy(-1, i, none),
    "index_fill": lambda x, i, none: x.index_fill(-1, i, 2),
    "index_select": lambda x, i, none: x.index_select(-1, i),
    "put": lambda x, i, none: x.put(i, none.reshape(-1)[:0]),
    "take": lambda x, i, none: x.take(i),
    "index_put": lambda x, i, none: x.index_put((i,), none.reshape(-1)[:0]),
    "index_reduce mean": lambda x, i, none: x.index_reduce(-1, i, none, "mean"),
    "index_reduce amax": lambda x, i, none: x.index_reduce(-1, i, none, "amax"),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_empty_indices(device: torch.device) -> None:
    wrong = []
    for case, function in EMPTY_INDEX.items():
        for sizes in ((3,), (3, 4), (2, 3, 0), (0,)):
            x = torch.ones(sizes)
            none = torch.ones((*sizes[:-1], 0))
            want, got = (
                attempt(partial(function, x, empty_index(x), none))
                for x, none in ((x, none), (x.to(device), none.to(device)))
            )
            same = error_difference(want, got) is None
            if not same or (want.error is None and not torch.equal(got.value.cpu(), want.value)):
                wrong.append(f"{case} of {sizes}: {want}, {got}")
    assert not wrong


def test_masks_of_uint8_warn(device: torch.device) -> None:
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)
    x = torch.ones(3, 3, device=device)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        selected = x[mask]
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        x.index_put_((mask,), selected, accumulate=True)


def test_tensors_of_the_host_are_not_indexed_by_the_device(device: torch.device) -> None:
    index = torch.tensor([0], device=device)
    with pytest.raises(RuntimeError):
        torch.arange(3.0)[index]
    assert torch.arange(3.0, device=device)[torch.tensor([1])].item() == 1
