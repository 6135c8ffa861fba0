"""The engine of operators that are made of others, by rows of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from torch_outboard import _C, fallback
from torch_outboard.ops.composed import composed

INT64_MOST = 2**63 - 1


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("outboard_composed", "DEF") as made:
        made.define("bump_(Tensor(a!) x, bool wrong) -> Tensor(a!)")
        made.define("bump_copy(Tensor x, bool wrong) -> Tensor")
        made.define("number(Tensor x, int a, int b) -> Tensor")
        made.impl("bump_", lambda x, wrong: x.add_(10), "CPU")
        made.impl("bump_copy", lambda x, wrong: x + 10, "CPU")
        made.impl("number", lambda x, a, b: x + 0.5, "CPU")
        yield made


@pytest.fixture
def row(device, library) -> Iterator[Callable[[str, str], None]]:
    added = []

    def add(name: str, body: str) -> None:
        qualified = f"outboard_composed::{name}"
        _C.bring_device_kernels()
        token = _C.add_row_kernel(qualified, composed(qualified, body), None, -1)
        added.append((qualified, token))

    yield add
    for qualified, token in added:
        _C.remove_kernel(qualified, token)


def test_nothing_is_written_twice(device, row):
    row("bump_", "x.add_(1)\nassert not wrong\nreturn x")
    x = torch.zeros(3, device=device)
    torch.ops.outboard_composed.bump_(x, False)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="declined a call after it had written to an argument"):
        torch.ops.outboard_composed.bump_(x, True)
    assert x.tolist() == [2, 2, 2]  # and not 12
    # Through a view as well.
    row("bump_", "x[1:].mul_(3)\nassert not wrong\nreturn x")
    with pytest.raises(RuntimeError, match="declined a call after it had written"):
        torch.ops.outboard_composed.bump_(x, True)


def test_what_is_its_own_may_be_written(device, row):
    row("bump_", "assert not wrong\nx.add_(1)\nreturn x")
    x = torch.zeros(3, device=device)
    torch.ops.outboard_composed.bump_(x, True)  # on the host
    assert x.tolist() == [10, 10, 10]
    row("bump_copy", "y = x.clone()\ny.add_(1)\nassert not wrong\nreturn y")
    with fallback.report() as report:
        assert torch.ops.outboard_composed.bump_copy(x, True).tolist() == [20, 20, 20]
    ways = {entry.op: entry.way for entry in report.rows}
    assert ways["outboard_composed::bump_copy"] != "device"


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("a + b", INT64_MOST, 1, None), ("a - b", -INT64_MOST, 2, None), ("a * b", 2**62, 2, None),
        ("a // b", -INT64_MOST - 1, -1, None), ("a // b", 1, 0, None), ("a % b", 1, 0, None),
        ("-a", -INT64_MOST - 1, 0, None), ("a + b", 2**53, 1, 2**53 + 1), ("a // b", -7, 2, -4),
        ("a % b", -7, 4, 1), ("-a", 5, 0, -5), ("a * b", -(2**31), 2**31, -(2**62)),
        ("a % b", -INT64_MOST - 1, -1, 0),
    ],
)  # fmt: skip
def test_integers_do_not_wrap(device, row, text, a, b, expected):
    """What needs more than 64 bits is left to the host."""
    row("number", f"return torch.full_like(x, {text}, dtype=4)")
    got = torch.ops.outboard_composed.number(torch.zeros(1, device=device), a, b)
    assert got.item() == (0.5 if expected is None else expected)
