"""Calls leave as many references to their arguments as there were, whatever becomes of them."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

import torch_outboard

Call = Callable[[torch.Tensor, torch.Tensor], object]

CALLS: dict[str, Call] = {
    "functional": lambda x, y: x + y,
    "with a number": lambda x, y: x * 2.0,
    "in place": lambda x, y: x.add_(y),
    "out=": lambda x, y: torch.mul(x, y, out=y),
    "one tensor twice": lambda x, y: torch.add(x, x, out=x),
    "an operand on CPU": lambda x, y: x + torch.tensor(1.0),
    "reduction": lambda x, y: x.sum(),
    "several results": lambda x, y: x.max(0),
    "product": lambda x, y: torch.mm(x, y),
    "optional tensor": lambda x, y: torch.nn.functional.layer_norm(x, (4,), y[0], None),
    "template": lambda x, y: torch.softmax(x, 1),
    "boxed": lambda x, y: torch.roll(x, 1),
    "list": lambda x, y: torch._foreach_add_([x, y], 1.0),
    "list of results": lambda x, y: torch._foreach_add([x, y], [y, x]),
    "CPU's kernel": lambda x, y: torch.linalg.det(x),
    "result cast": lambda x, y: torch.add(x, y, out=torch.empty_like(x, dtype=torch.float64)),
}


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    with torch_outboard.fallback.policy(copied="allow"):
        yield


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_returns(device: torch.device, name: str) -> None:
    check(device, CALLS[name])


def test_a_kernel_of_a_user(device: torch.device) -> None:
    with torch_outboard.kernel("aten::add.Tensor")(lambda x, y, *, alpha=1: torch.full_like(x, 7)):
        check(device, lambda x, y: x + y)


WRONG: dict[str, Call] = {
    "functional": lambda x, y: x + y[:3, :3],
    "in place": lambda x, y: x.add_(y[:3, :3]),
    "out=": lambda x, y: torch.add(x, y[:3, :3], out=y),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_call_that_raises(device: torch.device, name: str) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        with pytest.raises(RuntimeError, match="size"):
            WRONG[name](x, y)

    check(device, call)


def check(device: torch.device, call: Call) -> None:
    x, y = (torch.rand(4, 4, device=device) for _ in range(2))
    call(x, y)
    before = counts(x, y)
    for _ in range(3):
        call(x, y)
    gc.collect()
    assert counts(x, y) == before
    ends = [weakref.ref(x), weakref.ref(y)]
    storage = weakref.ref(x.untyped_storage())
    del x, y
    gc.collect()
    assert [end() for end in ends] == [None, None]
    assert storage() is None


def counts(*tensors: torch.Tensor) -> list[tuple[int, int]]:
    """References in Python and in C++."""
    return [(sys.getrefcount(tensor), tensor._use_count()) for tensor in tensors]
