"""Graphs that are code for the CPU, in the caches that a later process reads."""

from pathlib import Path

import pytest

from tests.support import run_python
from torch_outboard import _C

pytestmark = [
    pytest.mark.by_turns(4),
    pytest.mark.skipif(
        not (_C.runs_code(0) and _C.shares_host_memory(0)),
        reason="graphs are of either kind where the device compiles and the host shares its memory",
    ),
]

HEAD = """
import copy, torch, torch_outboard
import torch.nn.functional as F
name = torch_outboard.device_name()
torch.manual_seed(0)
def found():
    counters = torch._dynamo.utils.counters["aot_autograd"]
    return "hit" if counters["autograd_cache_hit"] else "miss"
"""
# Results that are views, and an input that changes; against CPU.
PLAIN = f"""{HEAD}
def function(x, w):
    return (x @ w).relu().t(), x.add_(1)
x, w = torch.randn(6, 7), torch.randn(7, 8)
expected = function(mine := x.clone(), w)
actual = torch.compile(function)(there := x.to(name), w.to(name))
for ours, theirs in zip((*actual, there), (*expected, mine)):
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours.cpu(), theirs)
print(found())
"""
# A step with numbers that are drawn, in kernels and by operators, an input that changes, and
# results that are views; against eager mode.
STEPS = f"""{HEAD}
def loss_of(net, x, state, kept):
    noise = torch.randn(9, device=x.device)
    hidden = F.dropout(net[0](x + torch.rand_like(x)).relu(), 0.3)
    state += hidden.detach().sum(0)
    drawn = torch.bernoulli(noise.sigmoid()) * 2.0
    return (net[1](hidden).square() * drawn).sum(), kept.t()[1:], hidden.t()
eager = torch.nn.ModuleList([torch.nn.Linear(7, 12), torch.nn.Linear(12, 9)]).to(name)
ours = copy.deepcopy(eager)
compiled, x = torch.compile(loss_of), torch.randn(33, 7, device=name)
states, kept = [torch.zeros(12, device=name) for _ in range(2)], torch.randn(4, 6, device=name)
close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
for step in range(3):
    results = []
    for index, (function, net) in enumerate(((loss_of, eager), (compiled, ours))):
        torch.manual_seed(step)
        net.zero_grad()
        loss, view, hidden = function(net, x, states[index], kept)
        (loss + hidden.sum()).backward()
        assert view.data_ptr() == kept[:, 1:].data_ptr() and view.stride() == (1, 6)
        assert hidden.stride() == (1, 12)
        results.append((loss.detach(), hidden.detach(), *(p.grad for p in net.parameters())))
    close(*results)
    close(*states)
print(found())
"""
CONSTANT = STEPS.replace("* 2.0", "* torch.tensor([1.0, 2.0, 3.0] * 3, device=x.device)")
# Graphs for all sizes, forward and backward; against CPU.
DYNAMIC_SHAPES = f"""{HEAD}
net = torch.nn.Sequential(torch.nn.Linear(7, 12), torch.nn.GELU(), torch.nn.LayerNorm(12))
ours = copy.deepcopy(net).to(name)
compiled = torch.compile(ours, dynamic=True)
for rows in (2, 7, 12, 4, 90):
    x = torch.randn(rows, 7)
    for model, given in ((net, x), (compiled, x.to(name))):
        model.zero_grad()
        model(given).cumsum(0).t().square().mean().backward()
    for theirs, mine in zip(net.parameters(), ours.parameters()):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5)
print(found())
"""


def run(code: str, folder: Path, placement: str = "host") -> str:
    settings = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "OUTBOARD_PLACEMENT": placement}
    return run_python(code, timeout=280, **settings).strip()


def test_a_process_finds_graphs_of_its_own_placement(tmp_path: Path):
    """Those of `auto` are those of `device`."""
    found = [run(PLAIN, tmp_path, placement) for placement in ("host", "host", "device", "auto")]
    assert found == ["miss", "hit", "miss", "hit"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "second"),
    [(STEPS, "hit"), (CONSTANT, "miss"), (DYNAMIC_SHAPES, "hit")],
    ids=["steps", "constant", "dynamic shapes"],
)
def test_training(code: str, second: str, tmp_path: Path):
    """With gradients and operators of the device; memory of the device is not kept."""
    assert [run(code, tmp_path), run(code, tmp_path)] == ["miss", second]
