"""Loops with dynamic sizes that are not known to divide each other."""

import itertools
from types import SimpleNamespace

import pytest
import sympy
from torch._inductor.codegen.simd import CantSplit, SIMDKernel
from torch._inductor.sizevars import SizeVarAllocator
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

from torch_outboard.inductor.dynamic_sizes import ranges_by_location

CHANNELS = sympy.Symbol("s0", integer=True, positive=True)
HALF = FloorDiv(CHANNELS, 2)
INDICES = sympy.symbols("i:3", integer=True, nonnegative=True)


def positions(groups: list[sympy.Expr], lengths: list[list[sympy.Expr]]) -> list[tuple[int, ...]]:
    """Where each turn of a kernel's loops is in a node's, for five channels."""
    ranges = ranges_by_location(
        groups, lengths, lambda *sizes: [[i] for i in INDICES[: len(sizes)]]
    )
    assert ranges is not None
    flat = [index for indices in ranges for index in indices]
    result = []
    for turn in itertools.product(*(range(int(size.subs(CHANNELS, 5))) for size in groups)):
        numbers = {CHANNELS: 5, **dict(zip(INDICES, turn, strict=False))}
        result.append(tuple(int(index.subs(numbers)) for index in flat))
    return result


@pytest.fixture(autouse=True)
def graph():
    with V.set_graph_handler(SimpleNamespace(sizevars=SizeVarAllocator())):
        yield


def test_a_loop_over_groups_and_their_channels():
    """As the gradient of group norm has, in a kernel with loops over both."""
    two = sympy.Integer(2)
    groups, lengths = [two, HALF], [[2 * HALF], []]
    with pytest.raises(CantSplit):
        SIMDKernel._split_iteration_ranges(groups, lengths)
    assert positions(groups, lengths) == [(i,) for i in range(4)]
    # The same with loops that divide others.
    three = sympy.Integer(3)
    groups, lengths = [two * three, HALF], [[two, sympy.S.One, 3 * HALF], []]
    assert positions(groups, lengths) == [(i, 0, k) for i in range(2) for k in range(6)]
    # Loops of other sizes.
    assert ranges_by_location([HALF], [[CHANNELS]], lambda *sizes: [[INDICES[0]]]) is None
