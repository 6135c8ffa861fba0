"""The path of a call is what a trace of the call sees."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import torch_outboard
from torch_outboard import fallback
from torch_outboard.inspection.call_path import call_path, example


def met(path):
    return [step.where for step in path.keys if step.what != "falls through"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (torch.relu, "aten::relu"),
        (torch.flatten, "aten::flatten.using_ints"),
        (torch.clone, "aten::clone"),
        (lambda x: x.as_strided((1,), (1,)), "aten::as_strided"),
    ],
)
@pytest.mark.parametrize("modes", [(), ("autocast",), ("no_grad",), ("inference",)])
def test_keys_are_those_of_a_call(device, call, name, modes):
    x = example(device, torch.float32)
    contexts = {
        (): nullcontext(),
        ("autocast",): torch.autocast(device.type),
        ("no_grad",): torch.no_grad(),
        ("inference",): torch.inference_mode(),
    }
    with torch_outboard.trace() as trace, fallback.policy(copied="allow"), contexts[modes]:
        call(torch.empty_like(x) if modes == ("inference",) else x)
    called = next(c for c in trace.walk() if c.name == name)
    assert tuple(met(call_path(name, x, modes))) == called.keys


@pytest.mark.separate
def test_the_router_ends_on_the_host(device, shares_memory):
    steps = call_path("aten::add.Tensor", example(device, torch.float32)).router
    assert steps[-1].where == "host"
    where = "the device's memory" if shares_memory else "copies"
    assert steps[-1].what.startswith(f"CPU kernel on {where}; policy '")
    assert "RegisterCPU" in steps[-1].file


def test_kernels_of_users_come_first_with_what_they_do_not_serve(device):
    @torch_outboard.kernel("aten::erfinv", dtypes=[torch.float64])
    def erfinv(x):
        return x

    try:
        first = call_path("aten::erfinv", example(device, torch.float32)).router[0]
        assert (first.where, first.what) == ("user", "kernel (device); not for float32")
        first = call_path("aten::erfinv", example(device, torch.float64)).router[0]
        assert first.what == "kernel (device)"
    finally:
        erfinv.remove()


def test_where_paths_end(device):
    path = call_path("aten::linear", example(device, torch.float32))
    assert path.router == []
    assert path.keys[-1].what == "composite: calls other operators, with their derivatives"
    path = call_path("aten::mm", example(device, torch.float32, "coo"))
    assert path.keys[-1].where == "SparsePrivateUse1"
    assert path.router[-1].what.startswith("SparseCPU kernel on ")
    path = call_path("aten::sin", example(device, torch.float32), ("vmap",))
    assert path.keys[0].where == "FuncTorchDynamicLayerFrontMode"
    assert path.keys[0].what == "a transform of torch.func"
    path = call_path("aten::_cudnn_init_dropout_state", example(device, torch.float32))
    ends = [path.keys[-1].what, path.router[-1].what if path.router else ""]
    assert "no CPU kernel: the call raises NotImplementedError" in ends
    with pytest.raises(ValueError, match="there is no overload 'aten::no_such'"):
        call_path("aten::no_such", example(device, torch.float32))
