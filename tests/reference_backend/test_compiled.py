"""`torch.compile` with the device: capture, guards, backends that need no kernels."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.backends.registry import list_backends
from torch._dynamo.device_interface import get_interface_for_device
from torch._dynamo.testing import CompileCounterWithBackend

import torch_outboard

pytestmark = [pytest.mark.separate]


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune-no-cudagraphs"}, {"options": {}}])
def test_the_devices_backend_compiles(device, options, shares_memory):
    x = torch.randn(40, device=device)
    compiled = torch.compile(lambda x: torch.relu((x + 1) * 2), backend=device.type, **options)
    torch.testing.assert_close(compiled(x), torch.relu((x + 1) * 2))
    if not shares_memory and not torch_outboard._C.runs_code(device.index):
        return  # graphs run operator by operator there
    with pytest.raises(RuntimeError, match="no_such_setting"):
        torch.compile(lambda x: x - 3, backend=device.type, options={"no_such_setting": 1})(x)


def test_interface(device):
    assert device.type in list_backends()
    interface = get_interface_for_device(device.type)
    assert interface.current_device() == torch.accelerator.current_device_index()
    assert interface.device_count() == torch.accelerator.device_count()


def test_guards(device):
    counter = CompileCounterWithBackend("aot_eager")

    @torch.compile(backend=counter)
    def function(x):
        return x + 1

    for size, frames in ((4, 1), (4, 1), (8, 2)):
        x = torch.randn(size, device=device)
        assert torch.equal(function(x), x + 1)
        assert counter.frame_count == frames


def test_captured_tensors_are_of_the_device(device):
    seen = []

    def backend(module, inputs):
        for node in module.graph.nodes:
            if node.op == "placeholder":
                seen.append(node.meta["example_value"].device)
        return module.forward

    @torch.compile(backend=backend, fullgraph=True)
    def function(x):
        return (x + 1).cpu() * 2

    x = torch.randn(4, device=device)
    assert torch.equal(function(x), (x + 1).cpu() * 2)
    assert seen == [device]


@pytest.mark.parametrize("dynamic", [None, True])
def test_derivatives_and_shapes(device, dynamic):
    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=dynamic)
    def function(x):
        return (x * 2).sum()

    for size in (4, 8):
        x = torch.randn(size, device=device, requires_grad=True)
        function(x).backward()
        assert x.grad.tolist() == [2.0] * size


def test_modules_autocast_and_default_device(device):
    layer = nn.Linear(4, 4).to(device)
    x = torch.randn(2, 4, device=device)
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x), layer(x))

    @torch.compile(backend="aot_eager")
    def product(x, y):
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            return torch.mm(x, y)

    assert product(x, x.t()).dtype == torch.bfloat16

    @torch.compile(backend="aot_eager")
    def made(x):
        return x + torch.zeros(4)

    with torch.device(device):
        assert made(x).device == device
