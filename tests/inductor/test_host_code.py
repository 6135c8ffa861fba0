"""Graphs as Inductor's C++ code on memory that the host shares; tests in a process of their own."""

from __future__ import annotations

import pytest

from tests.support import run_python

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
    lines = run_python(HEAD + code, OUTBOARD_WAY="host", timeout=280).splitlines()
    if lines == ["separate"]:
        pytest.skip("the host does not reach the device's memory")
    return lines


def test_code_is_cpp_and_results_are_the_devices() -> None:
    lines = run(
        """
x, y = torch.randn(50, 60), torch.randn(60)
_, code = check(lambda x, y: ((x * y).relu().sum(0), torch.softmax(x, 1)), x, y)
print("cpp_fused" in code)
"""
    )
    assert lines == ["True"]


def test_constants_of_a_graph() -> None:
    assert run("check(lambda x: (x[[0, 2]], x + 1), torch.randn(5, 3)); print('right')") == [
        "right"
    ]


def test_inputs_change_and_come_back_as_views() -> None:
    lines = run(
        """
def function(x):
    x.mul_(2)
    return x.t(), x.view(-1)[3:], x
there, _ = check(function, torch.randn(4, 5))
x = there[0]
first, second, third = torch.compile(function)(x)
print(third is x, first.data_ptr() == x.data_ptr(), second.storage_offset())
first.zero_()
print(x.abs().sum().item())
"""
    )
    assert lines == ["True True 3", "0.0"]


def test_memory_is_the_devices() -> None:
    lines = run(
        """
x = torch.randn(1000, 1000, device=name)
f = torch.compile(lambda x: x.sin() + 1)
f(x)
module = torch.get_device_module(name)
before = module.memory_allocated()
y = f(x)
print(module.memory_allocated() - before)
del y
print(module.memory_allocated() - before)
"""
    )
    assert int(lines[0]) in range(4000000, 4100000)
    assert lines[1] == "0"


def test_training_and_draws() -> None:
    lines = run(
        """
from torch import nn
def losses(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    model = model.to(device)
    step = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 16).to(device), torch.randint(4, (8,)).to(device)
    found = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(step(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return torch.tensor(found)
torch.testing.assert_close(losses(name, True), losses("cpu", False))
layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout()).to(name)
x = torch.randn(4, 8, device=name)
torch.manual_seed(1)
expected = layer(x)
torch.manual_seed(1)
print(torch.equal(torch.compile(layer)(x), expected))
"""
    )
    assert lines == ["True"]


def test_graphs_with_memory_of_both_run_operator_by_operator() -> None:
    lines = run(
        """
def function(x, y):
    return (x + 1).cpu() + y, x * 2
x, y = torch.randn(3), torch.randn(3)
on_cpu, on_device = torch.compile(function)(x.to(name), y)
torch.testing.assert_close(on_cpu, x + 1 + y)
torch.testing.assert_close(on_device.cpu(), x * 2)
print(on_cpu.device, on_device.device.type == name)
"""
    )
    assert lines == ["cpu True"]
