"""Graphs whose way is chosen by their calls, in the caches that a later process reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.inductor.ways.conftest import AT_ONCE
from tests.support import run_python
from torch_outboard import _C

pytestmark = [
    pytest.mark.by_turns(4),
    pytest.mark.skipif(
        not (_C.runs_code(0) and _C.shares_host_memory(0)),
        reason="ways are chosen where the device compiles kernels and the host shares its memory",
    ),
]

# A step with numbers that are drawn, in kernels and by operators, a constant, an input that
# changes, and results that are views; against eager mode.
STEPS = f"""{AT_ONCE}
import torch.nn.functional as F
def loss_of(net, x, state, kept):
    noise = torch.randn(9, device=x.device)
    hidden = F.dropout(net[0](x + torch.rand_like(x)).relu(), 0.3)
    state += hidden.detach().sum(0)
    table = torch.tensor([1.0, 2.0, 3.0] * 3, device=x.device)
    drawn = torch.bernoulli(noise.sigmoid()) * table
    return (net[1](hidden).square() * drawn).sum(), kept.t()[1:], hidden.t()
eager = torch.nn.ModuleList([torch.nn.Linear(7, 12), torch.nn.Linear(12, 9)]).to(name)
ours = copy.deepcopy(eager)
compiled, x = torch.compile(loss_of), torch.randn(33, 7, device=name)
states, kept = [torch.zeros(12, device=name) for _ in range(2)], torch.randn(4, 6, device=name)
close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
for step in range(int(sys.argv[1])):
    results = []
    for place, (function, net) in enumerate(((loss_of, eager), (compiled, ours))):
        torch.manual_seed(step)
        net.zero_grad()
        loss, view, hidden = function(net, x, states[place], kept)
        (loss + hidden.sum()).backward()
        assert view.data_ptr() == kept[:, 1:].data_ptr() and view.stride() == (1, 6)
        assert hidden.stride() == (1, 12)
        results.append((loss.detach(), hidden.detach(), *(p.grad for p in net.parameters())))
    close(*results)
    close(*states)
counters = torch._dynamo.utils.counters["aot_autograd"]
print("hit" if counters["autograd_cache_hit"] else "miss", *remembered().values())
"""
PLAIN = """
import torch, torch_outboard
name = torch_outboard.device_name()
def function(x, w):
    return (x @ w).relu().t(), x.add_(1)
x, w = torch.randn(6, 7), torch.randn(7, 8)
expected = function(mine := x.clone(), w)
actual = torch.compile(function)(there := x.to(name), w.to(name))
for ours, theirs in zip((*actual, there), (*expected, mine)):
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours.cpu(), theirs)
print(torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""
# A graph for all sizes, and that of its gradients; against CPU. Steps are as many as are asked for,
# and more until both have decided.
OPEN_SIZES = f"""{AT_ONCE}
net = torch.nn.Sequential(torch.nn.Linear(7, 12), torch.nn.GELU(), torch.nn.LayerNorm(12))
ours = copy.deepcopy(net).to(torch_outboard.device_name())
compiled = torch.compile(ours, dynamic=True)
for step in itertools.count():
    if step >= int(sys.argv[1]) and (step < 50 or step > 3000 or len(remembered()) >= 2):
        break
    x = torch.randn(2 + step * 5 % 13, 7)
    for model, given in ((net, x), (compiled, x.to(torch_outboard.device_name()))):
        model.zero_grad()
        result = model(given).cumsum(0).t()
        result.square().mean().backward()
    for theirs, mine in zip(net.parameters(), ours.parameters()):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5)
counters = torch._dynamo.utils.counters["aot_autograd"]
print("hit" if counters["autograd_cache_hit"] else "miss", *remembered().values())
"""


def set_ways(measuring: dict[str, str], way: str) -> None:
    path = Path(measuring["OUTBOARD_CACHE_DIR"]) / "graph_ways.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), way)))


def steps(count: int, measuring: dict[str, str], code: str = STEPS) -> list[str]:
    return run_python(code, str(count), timeout=280, **measuring).split()


def test_a_second_process_traces_nothing_while_ways_are_open(measuring: dict[str, str]):
    assert [run_python(PLAIN, timeout=280, **measuring).split() for _ in range(2)] == [["0"], ["1"]]


@pytest.mark.slow
def test_another_process_goes_the_way_that_is_chosen_then(measuring: dict[str, str]):
    found, *ways = steps(140, measuring)  # all ways are tried; both graphs decide
    assert found == "miss"
    assert len(ways) == 2
    for way in ("host", "host", "device"):  # the second time, its code was kept, too
        set_ways(measuring, way)
        assert steps(3, measuring) == ["hit", way, way]
    # Operators that its code calls are defined where it is loaded; the choice may get lost.
    set_ways(measuring, "host")
    measuring["TORCHINDUCTOR_CACHE_DIR"] += "_new"
    assert [steps(3, measuring)[0] for _ in range(2)] == ["miss", "hit"]
    (Path(measuring["OUTBOARD_CACHE_DIR"]) / "graph_ways.json").unlink()
    assert steps(3, measuring) == ["hit"]


@pytest.mark.slow
def test_another_process_goes_the_way_that_is_chosen_for_open_sizes(measuring: dict[str, str]):
    found, *ways = steps(100, measuring, OPEN_SIZES)
    assert found == "miss"
    assert len(ways) == 2
    for way in ("host", "kernels", "device"):
        set_ways(measuring, way)
        assert steps(20, measuring, OPEN_SIZES) == ["hit", way, way]
    set_ways(measuring, "host")
    measuring["TORCHINDUCTOR_CACHE_DIR"] += "_new"  # what is kept now is code for the host
    assert [steps(20, measuring, OPEN_SIZES)[0] for _ in range(2)] == ["miss", "hit"]
    set_ways(measuring, "kernels")
    assert steps(20, measuring, OPEN_SIZES)[0] == "hit"


@pytest.mark.slow
def test_a_kept_graph_goes_operator_by_operator(measuring: dict[str, str]):
    decide = PLAIN.replace("torch.compile(function)(", "run(") + "print(*remembered().values())"
    head = f"""{AT_ONCE}
def run(x, w):
    compiled = torch.compile(function)
    for _ in range(140):
        result = compiled(x.clone(), w)
    return compiled(x, w)
"""
    assert len(run_python(head + decide, timeout=280, **measuring).split()) == 2
    set_ways(measuring, "eager")
    assert run_python(PLAIN, timeout=280, **measuring).split() == ["1"]


@pytest.mark.slow
def test_graphs_that_always_run_by_code_for_the_host(measuring: dict[str, str]):
    """With gradients and operators of the device; memory of the device is not kept."""
    settings = {**measuring, "OUTBOARD_WAY": "host"}
    without_constant = STEPS.replace("torch.tensor([1.0, 2.0, 3.0] * 3, device=x.device)", "2.0")
    assert without_constant != STEPS
    assert [steps(3, settings, without_constant) for _ in range(2)] == [["miss"], ["hit"]]
    assert [steps(3, settings) for _ in range(2)] == [["miss"], ["miss"]]


@pytest.mark.slow
def test_another_way_takes_nothing_of_what_one_has_kept(measuring: dict[str, str]):
    for way in ("host", "device", "auto"):
        settings = {**measuring, "OUTBOARD_WAY": way}
        assert run_python(PLAIN, timeout=280, **settings).split() == ["0"], way
