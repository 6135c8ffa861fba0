"""Which nodes behind an operator become an epilogue, and what its texts are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch._inductor.compile_fx  # defines the operators
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.inductor.support import skip_without_kernels
from torch_outboard.inductor.lowerings import epilogues
from torch_outboard.inductor.lowerings.convolutions import _Places as ImagePlaces
from torch_outboard.inductor.lowerings.epilogue_writer import MOST_OPERANDS
from torch_outboard.inductor.lowerings.products import _Places as MatrixPlaces

aten = torch.ops.aten


def traced(function: Callable[..., Any], *given: torch.Tensor) -> torch.fx.Node:
    """The one product or convolution of a function, in its graph."""
    with FakeTensorMode() as mode:
        graph = make_fx(function)(*(mode.from_tensor(x) for x in given)).graph
    (root,) = (n for n in graph.nodes if n.target in (aten.mm.default, aten.convolution.default))
    return root


def of_product(follow: Callable[..., Any], *others: torch.Tensor) -> epilogues.Epilogue | None:
    root = traced(lambda x, *others: follow(x @ x, *others), torch.zeros(6, 6), *others)
    return epilogues.find(root, MatrixPlaces(root))


def of_image(follow: Callable[..., Any], *others: torch.Tensor) -> epilogues.Epilogue | None:
    x, w = torch.zeros(2, 3, 8, 8), torch.zeros(4, 3, 1, 1)
    root = traced(lambda x, w, *others: follow(torch.conv2d(x, w), *others), x, w, *others)
    return epilogues.find(root, ImagePlaces(root))


def found_by(find: Callable[..., epilogues.Epilogue | None], *given: Any) -> epilogues.Epilogue:
    found = find(*given)
    assert found is not None
    return found


product, image = partial(found_by, of_product), partial(found_by, of_image)


def test_factors_of_a_channel_are_made_once_for_a_row():
    found = image(lambda a, v: a * (v + 1).rsqrt().view(1, 4, 1, 1), torch.zeros(4))
    assert (found.places, found.row_values) == ("r", 1)
    assert found.of_row == "const T u0 = (b0 + C(1.0f)); const T u1 = ob_rsqrt(u0); k[0] = u1;"
    assert found.body == "const T t0 = (a * k[0]); r[0] = t0;"
    # A vector along another dimension is no factor of channels.
    assert of_image(lambda a, v: a + v, torch.zeros(8)) is None
    assert of_image(lambda a, v: a + v.view(8, 1), torch.zeros(8)) is None


def test_operands():
    # One that lies otherwise ends what is fused.
    other = torch.zeros(2, 4, 8, 8).contiguous(memory_format=torch.channels_last)
    found = image(lambda a, other: a.relu() + other, other)
    assert [node.target for node in found.results] == [aten.relu.default]
    # What only an epilogue uses is computed in it.
    other = torch.zeros(6, 6)
    found = product(lambda a, other: (a * (other.exp() * other), other + 1), other)
    assert found.places == "e"
    assert "ob_exp(b0)" in found.body
    twice = product(lambda a, other: (lambda e: (a * e, e))(other.exp()), other)
    assert [node.target for node in twice.operands] == [aten.exp.default]


def test_limits():
    found = product(lambda a: [a + i for i in range(6)])
    assert len(found.results) == epilogues.MOST_RESULTS
    others = [torch.zeros(6, 6) for _ in range(MOST_OPERANDS + 3)]
    found = product(lambda a, *others: sum(others, a), *others)
    assert len(found.operands) == MOST_OPERANDS


def test_nothing_to_compute():
    for follow in (
        lambda a: a,
        lambda a: a.view(3, 12),
        lambda a: a.unsqueeze(0) * 2,
        lambda a: a.t() * 2,
        lambda a: a.sum(0),
        lambda a: a.double(),
        lambda a: a * float("inf"),
        lambda a: a.lgamma(),
        lambda a: torch.add(a, a, alpha=2),
    ):
        assert of_product(follow) is None


def test_what_stands_for_an_epilogue_while_it_is_measured(device):
    skip_without_kernels()
    x, other, added = torch.randn(9, 9), torch.randn(9, 9), torch.randn(9)
    mine = x.to(device)
    for reads, keeps, transcendental in itertools.product([False, True], repeat=3):
        costs = epilogues.Costs(reads, keeps, transcendental)
        stand_in = epilogues.StandIn(costs, other.to(device), added.to(device), "c")
        actual = torch.ops.outboard_products.product(mine, mine, *stand_in.arguments)
        total = x @ x + added + (other if reads else 0)
        expected = [torch.nn.functional.gelu(total) if transcendental else total.relu()]
        expected += [total] if keeps else []
        torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-4)
        sums = mine @ mine
        before = sums.clone()
        stand_in.follow(sums)
        assert sums.equal(before) == keeps


def test_costs_and_results():
    found = product(
        lambda a, other: (torch.exp(a) * other, a, (a > 0).logical_not()), torch.zeros(6, 6)
    )
    assert found.costs == epilogues.Costs(reads=True, keeps=True, transcendental=True)
    assert found.arguments[-1] == "float32,float32,bool"
    assert found.results[0] is found.root
    found = product(lambda a, columns: a * columns, torch.zeros(6))
    assert found.costs == epilogues.Costs(reads=False, keeps=False, transcendental=False)
