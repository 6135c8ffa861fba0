"""Graphs as Inductor's C++ code on memory that the host shares; tests in a separate process."""

import pytest
import torch
from torch.testing import assert_close

from tests.support import run_python
from torch_outboard import _C

# Each starts a C++ compiler several times.
takes_a_compiler = pytest.mark.by_turns(10)

HEAD = """
import torch, torch_outboard
from torch._inductor.utils import run_and_get_code
name = torch_outboard.device_name()
if not torch_outboard._C.shares_host_memory(0):
    print("separate")
    raise SystemExit
def check(function, *arguments, **options):
    expected = function(*(a.clone() for a in arguments))
    there = [a.to(name) for a in arguments]
    actual, codes = run_and_get_code(torch.compile(function, **options), *there)
    for one, other in zip(actual, expected):
        assert one.device.type == name, one.device
        torch.testing.assert_close(one.cpu(), other)
    return there, "".join(codes)
"""


def run(code: str) -> list[str]:
    lines = run_python(HEAD + code, OUTBOARD_PLACEMENT="host", timeout=280).splitlines()
    if lines == ["separate"]:
        pytest.skip("the host does not reach the device's memory")
    return lines


@takes_a_compiler
def test_results_and_their_memory_are_the_devices() -> None:
    """Attention is the CPU's; inputs come back as they are, or as views."""
    lines = run(
        """
from torch.nn.functional import scaled_dot_product_attention
x, y = torch.randn(50, 60), torch.randn(60)
_, code = check(lambda x, y: ((x * y).relu().sum(0), torch.softmax(x, 1)), x, y)
print("C++:", "cpp_fused" in code)
check(lambda x: (x[[0, 2]], x + 1), torch.randn(5, 3))
def attention(q):
    return (scaled_dot_product_attention(q, q.sin(), q.cos(), is_causal=True).relu(),)
_, code = check(attention, torch.randn(2, 2, 5, 8))
print("attention:", "flash_attention_for_cpu" in code, "outboard_on_device" in code)

def views(x):
    x.mul_(2)
    return x.t(), x.view(-1)[3:], x
x = torch.randn(4, 5, device=name)
first, second, third = torch.compile(views)(x)
print("views:", third is x, first.data_ptr() == x.data_ptr(), second.storage_offset())
first.zero_()
print("memory of a view:", x.abs().sum().item())

x = torch.randn(1000, 1000, device=name)
f = torch.compile(lambda x: x.sin() + 1)
f(x)
module = torch.get_device_module(name)
before = module.memory_allocated()
y = f(x)
print("a result:", 4000000 <= module.memory_allocated() - before < 4100000)
del y
print("none:", module.memory_allocated() - before)
"""
    )
    assert lines == [
        "C++: True", "attention: True False", "views: True True 3", "memory of a view: 0.0",
        "a result: True", "none: 0",
    ]  # fmt: skip


@takes_a_compiler
def test_training() -> None:
    """By a compiled step; memory is no more than in eager mode, as the backward pass frees it."""
    lines = run(
        """
from torch import nn
module = torch.get_device_module(name)
def losses(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    model = model.to(device)
    step = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    update = torch.compile(optimizer.step) if compiled else optimizer.step
    x, y = torch.randn(8, 16).to(device), torch.randint(4, (8,)).to(device)
    found = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(step(x), y)
        loss.backward()
        update()
        optimizer.zero_grad()
        found.append(loss.item())
    return torch.tensor(found)
torch.testing.assert_close(losses(name, True), losses("cpu", False))
model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU())))
model, x = model.to(name), torch.randn(4096, 64, device=name)
def peak(function):
    for _ in range(2):
        module.reset_peak_memory_stats()
        function(x).sum().backward()
    return module.max_memory_allocated()
eager, compiled = peak(model), peak(torch.compile(model))
print(compiled / eager)
"""
    )
    assert float(lines[0]) < 1.05


NO_EAGER_GRAPHS = """
from torch_outboard.inductor import host_code
def fail(*arguments):
    raise AssertionError("a graph runs operator by operator")
host_code.EagerGraph.__init__ = fail
"""


@takes_a_compiler
def test_draws_are_those_of_eager_mode() -> None:
    lines = run(
        NO_EAGER_GRAPHS
        + """
import torch.nn.functional as F
def function(x):
    return (
        F.dropout(x, 0.3), torch.rand(5, 7, device=x.device), torch.randn(3, device=x.device),
        torch.bernoulli(x.detach(), 0.4), torch.normal(x.detach(), 1.0),
        torch.bernoulli(x.detach().sigmoid()),
        torch.randint(0, 9, (4,), device=x.device), F.dropout(x.sin(), 0.1),
    )
x = torch.randn(33, 10, device=name, requires_grad=True)
compiled = torch.compile(function)
def drawn(f):
    torch.manual_seed(3)
    results = [*f(x), *f(x)]
    (gradient,) = torch.autograd.grad(sum(r.float().sum() for r in results if r.requires_grad), x)
    return [*results, gradient]
for got, want in zip(drawn(compiled), drawn(function), strict=True):
    torch.testing.assert_close(got, want)
print("right")
"""
    )
    assert lines == ["right"]


@pytest.mark.slow
def test_graphs_that_are_not_of_the_device_alone() -> None:
    """With memory of both, with graphs in them, and with an operator of an extension."""
    lines = run(
        NO_EAGER_GRAPHS
        + """
from torch._higher_order_ops import while_loop
def both(x, y, scalar):
    y.mul_(2)
    x.add_(scalar)
    return (x + 1).cpu() + y, x * 2, x.cpu(), y * scalar, scalar + 1
x, y, scalar = torch.randn(3), torch.randn(3), torch.tensor(2.5)
expected = both(x1 := x.clone(), y1 := y.clone(), scalar)
actual = torch.compile(both)(x2 := x.to(name), y2 := y.clone(), scalar)
for got, want in zip([*actual, x2, y2], [*expected, x1, y1], strict=True):
    torch.testing.assert_close(got.cpu(), want)
print("on the device:", *(result.device.type == name for result in actual))
x2.zero_()
print("a copy stays:", actual[2].abs().sum().item() > 0)

def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))
def loop(i, x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (i, x))
x = torch.rand(5) + 0.1
compiled = torch.compile(branches)
for value in (x, -x):
    torch.testing.assert_close(compiled(value.to(name)).cpu(), branches(value))
i, y = torch.compile(loop)(torch.tensor(0, device=name), x.to(name))
torch.testing.assert_close(y.cpu(), x * 32)
print("a loop:", i.item(), y.device.type == name)

library = torch.library.Library("breadth", "DEF")
library.define("twice(Tensor x) -> Tensor")
devices = []
def twice(x):
    devices.append(x.device.type == name)
    return x * 2
library.impl("twice", twice, "PrivateUse1")
torch.library.register_fake("breadth::twice", lambda x: torch.empty_like(x), lib=library)
x = torch.randn(4, device=name)
compiled = torch.compile(lambda x: torch.ops.breadth.twice(x + 1) - 1)
torch.testing.assert_close(compiled(x), (x + 1) * 2 - 1)
print("an extension:", devices)
"""
    )
    assert lines == [
        "on the device: False True False False False", "a copy stays: True", "a loop: 5 True",
        "an extension: [True]",
    ]  # fmt: skip


def test_cpu_tensors_of_a_graph_are_no_ones_after_its_calls(device, shares_memory):
    """Arguments saved by a call stay right when later calls get other memory."""
    calls = _C.HostGraphCalls(device.index or 0, [], [])
    kept: list[torch.Tensor] = []
    keeps = [False]

    def compiled(arguments):
        if keeps[0]:
            kept.append(arguments[0])
        return [arguments[0], arguments[0][1:], arguments[0] + 1]

    first = torch.arange(4.0, device=device)
    for keeps[0] in (False, True, False):
        for given in (first, torch.full((4,), 7.0, device=device), first[:2]):
            same, view, new = calls(compiled, [given])
            assert same.device == view.device == new.device == given.device
            assert same.data_ptr() == given.data_ptr() or not shares_memory
            assert_close(view.cpu(), given.cpu()[1:])
            assert_close(new.cpu(), given.cpu() + 1)
            del given, same, view, new
    torch.full((4,), 9.0, device=device)  # where one was that is gone
    assert_close(kept[0], torch.arange(4.0))
    assert_close(kept[1], torch.full((4,), 7.0))
    assert_close(kept[2], torch.arange(2.0))


@pytest.mark.parametrize("count", [3, 40])
def test_inputs_over_one_storage_share_memory(device, shares_memory, count):
    """Others read what is written to one; results that are inputs lie in their memory."""
    calls = _C.HostGraphCalls(device.index or 0, [0], [])
    whole = torch.zeros(count, device=device)
    others = [torch.full((2,), float(i), device=device) for i in range(count)]
    for number in range(3):
        given = [whole, *whole.split(1), *others, others[0]]

        def compiled(arguments):
            first, parts = arguments[0], arguments[1 : count + 1]
            addresses = {part.untyped_storage().data_ptr() for part in parts}
            assert addresses == {first.data_ptr()}
            first += 1
            return [*parts, *arguments[count + 1 :], arguments[-1][1:]]

        results = calls(compiled, list(given))
        if shares_memory:
            pairs = zip(results[:-1], given[1:], strict=False)
            assert all(result.data_ptr() == input.data_ptr() for result, input in pairs)
        assert_close(torch.cat(results[:count]).cpu(), torch.full((count,), number + 1.0))
        assert_close(results[-2].cpu(), torch.zeros(2))
        assert results[-1].device == device
        assert not shares_memory or results[-1].data_ptr() == others[0][1:].data_ptr()


def test_a_written_input_over_copy_on_write_memory(device):
    """The write gives the storage memory of its own, which other inputs over the storage show."""
    calls = _C.HostGraphCalls(device.index or 0, [1], [])
    original = torch.zeros(4, device=device)
    clone = torch._lazy_clone(original)

    def compiled(arguments):
        read, written = arguments
        written += 1
        return [read + 1]

    (result,) = calls(compiled, [clone.view(2, 2), clone])
    assert_close(result.cpu(), torch.full((2, 2), 2.0))
    assert_close(clone.cpu(), torch.ones(4))
    assert_close(original.cpu(), torch.zeros(4))


def test_the_graph_frees_inputs_without_other_owners(device, shares_memory):
    """And its new results become tensors of the device without a copy."""
    module = torch.get_device_module(device)
    calls = _C.HostGraphCalls(device.index or 0, [1], [])
    seen: list[int] = []

    def compiled(arguments):
        first, second = arguments
        arguments.clear()
        assert first.device == second.device == torch.device("cpu")
        second += first
        del first
        seen.append(module.memory_allocated())
        return [second, second.clone()]

    kept = torch.full((1 << 20,), 2.0, device=device)
    before = module.memory_allocated()
    given = [torch.ones(1 << 20, device=device), torch.ones(1 << 20, device=device)]
    address = given[1].data_ptr()
    changed, new = calls(compiled, given)
    assert given == []
    assert changed.device == new.device == kept.device
    if shares_memory:
        assert seen == [before + (4 << 20)]  # of the two, one was let go
        assert changed.data_ptr() == address
    assert module.memory_allocated() == before + (8 << 20)
    assert_close(changed + new, 2 * kept)
    changed.resize_(1 << 21)  # its storage has the device's allocator again
    assert changed.device == kept.device
    del changed, new
    assert module.memory_allocated() == before
