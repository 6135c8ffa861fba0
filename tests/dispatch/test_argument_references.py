"""Calls leave as many references to their arguments as there were, whatever becomes of them."""

import gc
import sys
import weakref
from collections.abc import Callable

import pytest
import torch

import torch_outboard

pytestmark = pytest.mark.usefixtures("allowed")

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


WRONG: dict[str, Call] = {
    "wrong, functional": lambda x, y: x + y[:3, :3],
    "wrong, in place": lambda x, y: x.add_(y[:3, :3]),
    "wrong, out=": lambda x, y: torch.add(x, y[:3, :3], out=y),
}


def test_every_kind_of_call(device: torch.device) -> None:
    check(device, CALLS)
    with torch_outboard.kernel("aten::add.Tensor")(lambda x, y, *, alpha=1: torch.full_like(x, 7)):
        check(device, {"a user's kernel": lambda x, y: x + y})


def test_calls_that_raise(device: torch.device) -> None:
    def raising(wrong: Call) -> Call:
        def call(x: torch.Tensor, y: torch.Tensor) -> None:
            with pytest.raises(RuntimeError, match="size"):
                wrong(x, y)

        return call

    check(device, {name: raising(wrong) for name, wrong in WRONG.items()})


def check(device: torch.device, calls: dict[str, Call]) -> None:
    ends = {}
    for name, call in calls.items():
        x, y = (torch.rand(4, 4, device=device) for _ in range(2))
        call(x, y)
        before = counts(x, y)
        for _ in range(3):
            call(x, y)
        assert counts(x, y) == before, name
        ends[name] = [weakref.ref(t) for t in (x, y, x.untyped_storage())]
        del x, y
    gc.collect()
    assert [name for name, end in ends.items() if any(ref() is not None for ref in end)] == []


def counts(*tensors: torch.Tensor) -> list[tuple[int, int]]:
    return [(sys.getrefcount(tensor), tensor._use_count()) for tensor in tensors]
