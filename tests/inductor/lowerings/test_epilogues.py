"""Which nodes behind an operator become an epilogue, and what its texts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx  # defines the operators
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from torch_outboard import _C
from torch_outboard.inductor.lowerings import epilogues
from torch_outboard.inductor.lowerings.convolutions import _Places as ImagePlaces
from torch_outboard.inductor.lowerings.epilogue_writer import MOST_OPERANDS, value_of
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


def product(follow: Callable[..., Any], *others: torch.Tensor) -> epilogues.Epilogue:
    found = of_product(follow, *others)
    assert found is not None
    return found


def of_image(follow: Callable[..., Any], *others: torch.Tensor) -> epilogues.Epilogue | None:
    x, w = torch.zeros(2, 3, 8, 8), torch.zeros(4, 3, 1, 1)
    root = traced(lambda x, w, *others: follow(torch.conv2d(x, w), *others), x, w, *others)
    return epilogues.find(root, ImagePlaces(root))


def image(follow: Callable[..., Any], *others: torch.Tensor) -> epilogues.Epilogue:
    found = of_image(follow, *others)
    assert found is not None
    return found


def test_text_of_an_activation():
    found = product(lambda a: torch.relu(a) * 2)
    assert found.body == "const T t0 = ob_relu(a); const T t1 = (t0 * C(2.0f)); r[0] = t1;"
    assert (found.of_row, found.places, found.arguments[-1]) == ("", "", "float32")


def test_factors_of_a_channel_are_made_once_for_a_row():
    channel = torch.zeros(4)
    found = image(lambda a, v: a * (v + 1).rsqrt().view(1, 4, 1, 1), channel)
    assert found.places == "r"
    assert found.row_values == 1
    assert found.of_row == "const T u0 = (b0 + C(1.0f)); const T u1 = ob_rsqrt(u0); k[0] = u1;"
    assert found.body == "const T t0 = (a * k[0]); r[0] = t0;"


def test_a_vector_along_the_last_dimension_of_images_is_no_channel():
    assert of_image(lambda a, v: a + v, torch.zeros(8)) is None
    assert of_image(lambda a, v: a + v.view(8, 1), torch.zeros(8)) is None


def test_an_operand_that_lies_otherwise_ends_what_is_fused():
    other = torch.zeros(2, 4, 8, 8).contiguous(memory_format=torch.channels_last)
    found = image(lambda a, other: a.relu() + other, other)
    assert [node.target for node in found.results] == [aten.relu.default]


def test_what_only_an_epilogue_uses_is_computed_in_it():
    other = torch.zeros(6, 6)

    def follow(a, other):
        return a * (other.exp() * other), other + 1

    found = product(follow, other)
    assert found.places == "e"
    assert "ob_exp(b0)" in found.body
    shared = product(lambda a, other: (a * other.exp(), other.exp()), other)
    assert [n.op for n in shared.operands] == ["placeholder"]
    twice = product(lambda a, other: (lambda e: (a * e, e))(other.exp()), other)
    assert [n.target for n in twice.operands] == [aten.exp.default]


def test_results_are_what_others_use():
    found = product(lambda a: (a.relu(), a, (a > 0).logical_not(), a.sum()))
    assert found.arguments[-1] == "float32,float32,bool"
    assert found.results[0] is found.root


def test_too_many_results_end_what_is_fused():
    found = product(lambda a: [a + i for i in range(6)])
    assert len(found.results) == epilogues.MOST_RESULTS


def test_too_many_operands_end_what_is_fused():
    others = [torch.zeros(6, 6) for _ in range(MOST_OPERANDS + 3)]
    found = product(lambda a, *others: sum(others, a), *others)
    assert len(found.operands) == MOST_OPERANDS


@pytest.mark.parametrize(
    "follow",
    [
        lambda a: a,
        lambda a: a.view(3, 12),
        lambda a: a.unsqueeze(0) * 2,
        lambda a: a.t() * 2,
        lambda a: a.sum(0),
        lambda a: a.double(),
        lambda a: a * float("inf"),
        lambda a: a.lgamma(),
        lambda a: torch.add(a, a, alpha=2),
    ],
)
def test_nothing_to_compute(follow):
    assert of_product(follow) is None


def test_replaced_nodes_give_what_they_gave():
    """A graph with an operator in their place is in order, and its values are the same."""
    root = traced(lambda x: (x @ x).relu(), torch.zeros(6, 6))
    found = epilogues.find(root, MatrixPlaces(root))
    assert found is not None
    epilogues.replace(found, torch.ops.outboard_products.product.default, root.args)
    root.graph.eliminate_dead_code()
    root.graph.lint()
    (call,) = (n for n in root.graph.nodes if "outboard" in str(n.target))
    assert call.args[2:] == found.arguments
    assert [value.shape for value in call.meta["val"]] == [value_of(found.results[0]).shape]


@pytest.mark.parametrize("reads", [False, True], ids=["", "reads"])
@pytest.mark.parametrize("keeps", [False, True], ids=["", "keeps"])
@pytest.mark.parametrize("transcendental", [False, True], ids=["", "transcendental"])
def test_what_stands_for_an_epilogue_while_it_is_measured(device, reads, keeps, transcendental):
    if not _C.runs_code(0):
        pytest.skip("the device has no compiler for kernels")
    x, other, added = torch.randn(9, 9), torch.randn(9, 9), torch.randn(9)
    costs = epilogues.Costs(reads, keeps, transcendental)
    stand_in = epilogues.StandIn(costs, other.to(device), added.to(device), "c")
    mine = x.to(device)
    actual = torch.ops.outboard_products.product(mine, mine, *stand_in.arguments)
    total = x @ x + added + (other if reads else 0)
    expected = [torch.nn.functional.gelu(total) if transcendental else total.relu()]
    expected += [total] if keeps else []
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-4)
    sums = mine @ mine
    before = sums.clone()
    stand_in.follow(sums)
    assert sums.equal(before) == keeps


def test_costs_of_an_epilogue():
    found = product(lambda a, other: (torch.exp(a) * other, a), torch.zeros(6, 6))
    assert found.costs == epilogues.Costs(reads=True, keeps=True, transcendental=True)
    found = product(lambda a, columns: a * columns, torch.zeros(6))
    assert found.costs == epilogues.Costs(reads=False, keeps=False, transcendental=False)
