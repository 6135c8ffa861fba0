"""The choice of a way for graphs whose sizes are open."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sympy
import torch
import torch._inductor.compile_fx  # registers the backend
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from tests.inductor.ways.conftest import AT_ONCE, Clock, ways_of
from tests.support import run_python
from torch_outboard.inductor.ways import choice
from torch_outboard.inductor.ways.open_sizes import CodeForSizes, OpenSizes, other_layouts
from torch_outboard.inductor.ways.remembered import remembered


def open_tensor(*sizes: int) -> Any:
    """A tensor as graphs are compiled for, all of whose sizes are open."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(sizes))
    return mode.from_tensor(torch.empty(sizes), symbolic_context=context)


@pytest.fixture
def x() -> Any:
    return open_tensor(3, 5)


class Code:
    """Stands for Inductor's code, and says how it was called."""

    def __init__(self, name: str, calls: list[str], strides: list[Any]) -> None:
        self.name = name
        self.calls = calls
        self.output_strides = strides

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        self.calls.append(self.name)
        return [inputs[0] + 0]


def test_code_that_holds_for_some_sizes(x: Any):
    """Its results are laid out as by the kernels."""
    calls: list[str] = []
    rows, columns = (size.node.expr for size in x.size())
    host, kernels = Code("host", calls, [("5", "1")]), Code("kernels", calls, [("1", str(rows))])
    conditions = [
        sympy.Ne(FloorDiv(rows, 2), 0),
        sympy.Or(sympy.Eq(Mod(columns, 2), 0), rows * columns <= 9),
        Max(rows, columns) < 9,
    ]
    assert other_layouts(host, host) == [None]
    run = CodeForSizes(host, kernels, OpenSizes([x]), conditions, other_layouts(host, kernels))
    for count, length in ((3, 4), (3, 5), (1, 4), (2, 3), (9, 2)):
        given = torch.arange(count * length).view(count, length)
        (result,) = run([given])
        assert result.equal(given)
        assert result.stride() == ((1, count) if calls[-1] == "host" else (length, 1))
    assert calls == ["host", "kernels", "kernels", "host", "kernels"]
    with pytest.raises(NotImplementedError, match="more than sizes"):
        CodeForSizes(host, kernels, OpenSizes([torch.empty(3)]), conditions, [])


@pytest.mark.usefixtures("chooses_at_once")
def test_the_faster_way_for_calls_that_differ(device: torch.device, clock: Clock, x: Any):
    """By a sixth, where the largest call does 25 times as much as the smallest one."""
    calls = list[str]()
    makers = ways_of({"kernels": 0.0012, "host": 0.001}, calls, clock, per_element=True)
    run = choice.MeasuredGraph("key", device.index or 0, makers, sizes=OpenSizes([x]))
    chance = random.Random(1)
    for count in range(1, 600):
        (result,) = run([torch.ones(chance.randint(2, 10), chance.randint(2, 10), device=device)])
        assert len(calls) == count
    assert result.unique().tolist() == [2]
    assert {*calls} == {"kernels", "host"}
    assert remembered() == {"key": "host"}
    assert {*calls[-20:]} == {"host"}


TRAINING = f"""{AT_ONCE}
from torch_outboard.inductor.ways.open_sizes import CodeForSizes
went = set()
def going(self, inputs, call=CodeForSizes.__call__):
    went.add("host")
    return call(self, inputs)
CodeForSizes.__call__ = going
net = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
ours = copy.deepcopy(net).to(name)
compiled = torch.compile(ours, dynamic=True)
# Until both graphs have decided. Code for the CPU that is compiled at the first sizes need not hold
# for the last ones.
last = 0
for count in itertools.count():
    last += len(remembered()) == 2 or count > 3000
    if last > 10:
        break
    x = torch.randn(90, 70, 16) if last else torch.randn(2 + count % 5, 3 + count % 7, 16)
    for model, given in ((net, x), (compiled, x.to(name))):
        model.zero_grad()
        model(given).square().mean().backward()
    for theirs, mine in zip(net.parameters(), ours.parameters()):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5)
print(len(remembered()), *went)
"""


@pytest.mark.slow
def test_training_with_open_sizes_is_right_while_ways_are_tried(measuring: dict[str, str]):
    # The forward and the backward graph.
    assert run_python(TRAINING, timeout=280, **measuring).split() == ["2", "host"]
    # Again, with what was chosen for the same graphs.
    assert run_python(TRAINING, timeout=280, **measuring).split()[0] == "2"
