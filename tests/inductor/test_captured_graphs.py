"""Graphs that are captured and replayed, against eager CPU."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

from torch_outboard import _C

pytestmark = pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this PyTorch has no graphs for accelerators"
)

assert_near = partial(torch.testing.assert_close, check_device=False)


@pytest.fixture(autouse=True)
def capturing_driver() -> None:
    if not (_C.captures_graphs() and _C.runs_code(0)):
        pytest.skip("the driver captures no graphs, or compiles no kernels")
    counters.clear()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, mode="reduce-overhead", **options)


def captures(device: torch.device) -> int:
    return int(counters[device.type]["captured_graphs"])


def test_inputs_that_move_or_change_and_parameters_that_stay(device):
    def function(x, y, weight):
        y.add_(x)
        return (x @ weight).relu() + 1, y.sin(), x, x.t()

    graph = compiled(function)
    weight = torch.randn(8, 8)
    there, kept = weight.to(device), []
    with torch.no_grad():
        for _ in range(8):
            x, y = torch.randn(4, 8), torch.randn(4, 8)
            kept += [x.to(device), y.to(device)]  # so that the next ones lie elsewhere
            assert_near(graph(*kept[-2:], there), function(x, y, weight))
            assert_near(kept[-1], y)
    assert 1 <= captures(device) <= 3


def test_results_in_use_are_not_overwritten(device):
    graph = compiled(lambda x: x.sin() + 1)
    inputs = [torch.randn(1000) for _ in range(9)]
    results = [graph(x.to(device)) for x in inputs]
    x = inputs[0].to(device)
    for _ in range(5):
        x = graph(x)  # which lies where the call before put it
    # They outlive the graph.
    del graph
    torch.compiler.reset()
    torch.zeros(1000, device=device).add_(7)
    for given, result in zip(inputs, results, strict=True):
        assert_near(result, given.sin() + 1)
    expected = inputs[0]
    for _ in range(5):
        expected = expected.sin() + 1
    assert_near(x, expected)


def test_a_new_step_takes_the_results_of_the_last_one(device):
    graph = compiled(lambda x: x.sin() + 1)
    results = []
    for step in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        results.append(graph(torch.full((10,), float(step), device=device)))
    assert captures(device) <= 2
    expected = torch.full((10,), 4.0).sin() + 1
    assert_near(results[-1], expected)
    with pytest.raises(RuntimeError, match="overwritten by a later call"):
        results[-2].cpu()


def test_training(device):
    """Forward and backward are captured."""
    reference = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    mine = copy.deepcopy(reference).to(device)
    graph = compiled(mine)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (reference, mine)]
    for _ in range(6):
        x, y = torch.randn(8, 16), torch.randn(8, 4)
        losses = F.mse_loss(reference(x), y), F.mse_loss(graph(x.to(device)), y.to(device))
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert_near(losses[1], losses[0])
    assert captures(device) >= 2


def test_replays_draw_what_eager_mode_draws(device):
    x = torch.ones(1000, device=device)
    torch.manual_seed(3)
    expected = [F.dropout(x) for _ in range(6)]
    graph = compiled(F.dropout)
    torch.manual_seed(3)
    for one in expected:
        assert torch.equal(graph(x), one)
    assert captures(device) == 1


def test_a_user_may_capture_around_it(device):
    module = torch.get_device_module(device)
    graph = compiled(lambda x: x.sin() + 1)
    x = torch.zeros(10, device=device)
    for _ in range(3):
        graph(x)
    around = module.Graph()
    with module.graph(around):
        result = graph(x)
    x.fill_(2)
    around.replay()
    assert_near(result, torch.full((10,), 2.0).sin() + 1)


@pytest.mark.slow
def test_sizes_up_to_a_limit(device):
    graph = compiled(lambda x: (x.sin() * x.shape[0]).sum(0), dynamic=True)
    for _ in range(2):
        for size in range(3, 25):
            x = torch.rand(size, 7)
            expected = (x.sin() * size).sum(0)
            assert_near(graph(x.to(device)), expected)
    assert 8 <= captures(device) <= 16


@pytest.mark.slow
def test_numbers_and_streams_have_captures_of_their_own(device):
    graph = compiled(lambda x, factor: x * factor, dynamic=True)
    x = torch.randn(16)
    there = x.to(device)
    other = torch.Stream(device)

    def call(factor, count):
        for _ in range(count):
            assert_near(graph(there, factor), x * factor)

    call(2, 3)
    call(3, 3)
    assert captures(device) == 2
    assert counters["stats"]["unique_graphs"] == 1  # of any factor
    for factor in (2, 3, 2, 3):  # not like the call before it
        call(factor, 1)
    assert captures(device) == 2
    torch.accelerator.synchronize()
    with other:
        call(2, 3)
    assert captures(device) == 3
    torch.accelerator.synchronize()
    call(2, 1)
    assert captures(device) == 3


def test_parts_on_the_host_are_left_out(device):
    def function(x, y):
        host = (x.sin() + 1).cpu()
        host = host @ host  # no kernel of C++, which would have to be compiled
        return host.to(x.device) * y.exp()

    graph = compiled(function)
    for _ in range(6):
        x, y = torch.randn(5, 5), torch.randn(5, 5)
        assert_near(graph(x.to(device), y.to(device)), function(x, y))
    assert captures(device) >= 2


@pytest.mark.slow
def test_what_cannot_be_captured_runs_and_says_why(device, caplog):
    def function(x):
        return torch.randn_like(x) * 0 + x.sin()

    graph = compiled(function)
    x = torch.randn(10)
    for _ in range(4):
        assert_near(graph(x.to(device)), x.sin())
    assert captures(device) == 0
    assert "every replay would draw the same" in caplog.text
