"""`explain` names what a trace of the call sees, and why a kernel does not run."""

import re
from contextlib import nullcontext

import pytest
import torch

import torch_outboard
from torch_outboard import fallback, placement
from torch_outboard.commands.explain import LAYOUTS, explain


def tables(name, x, modes=()):
    """The keys, and the kernels, each a list of cells by line."""
    parts = explain(name, x, modes).split("\n\n")[1:3]
    return [[re.split(r" {2,}", line) for line in part.splitlines()[1:]] for part in parts]


@pytest.fixture
def x(device):
    return torch.ones(2, 2, device=device)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (torch.relu, "aten::relu"),
        (torch.flatten, "aten::flatten.using_ints"),
        (lambda x: x.as_strided((1,), (1,)), "aten::as_strided"),
    ],
)
@pytest.mark.parametrize("mode", ["", "autocast", "no_grad", "inference"])
def test_keys_are_those_of_a_call(device, x, call, name, mode):
    contexts = {
        "": nullcontext(),
        "autocast": torch.autocast(device.type),
        "no_grad": torch.no_grad(),
        "inference": torch.inference_mode(),
    }
    with torch_outboard.trace() as trace, fallback.policy(copied="allow"), contexts[mode]:
        call(torch.empty_like(x) if mode == "inference" else x)
    called = next(c for c in trace.walk() if c.name == name)
    keys = tables(name, x, (mode,) if mode else ())[0]
    assert tuple(key for key, what, *_ in keys if what != "falls through") == called.keys


@pytest.mark.separate
def test_the_last_kernel_is_the_hosts(x, shares_memory):
    with placement.use("host"):
        kernels = tables("aten::sort.stable", x)[1]
        text = explain("aten::sort.stable", x)
    reasons = {runs for what, _, runs, _ in kernels if what.startswith("device kernel")}
    assert reasons <= {"no: the placement is 'host'", "no: the device runs no code"}
    assert kernels[-1][:3] == ["host kernel", "PyTorch", "yes"]
    assert "RegisterCPU" in kernels[-1][3]
    assert f"Placement: {'host' if shares_memory else 'copied'}; policy '" in text


def test_kernels_of_users_come_first_with_what_they_do_not_serve(x):
    @torch_outboard.kernel("aten::erfinv", dtypes=[torch.float64])
    def erfinv(x):
        return x

    try:
        assert tables("aten::erfinv", x)[1][0][:3] == ["own code", "user", "no: not for float32"]
        assert tables("aten::erfinv", x.double())[1][0][:3] == ["own code", "user", "yes"]
        assert "\nPlacement: device\n" in explain("aten::erfinv", x.double()) + "\n"
    finally:
        erfinv.remove()


def test_where_paths_end(x):
    assert tables("aten::linear", x)[0][-1][1].startswith("composite: calls other operators, with")
    with fallback.policy(copied="allow"):
        keys, kernels = tables("aten::mm", LAYOUTS["coo"](x))
    assert keys[-1][0] == "SparsePrivateUse1"
    assert "RegisterSparseCPU" in kernels[-1][-1]
    keys, _ = tables("aten::sin", x, ("vmap",))
    assert keys[0][:2] == ["FuncTorchDynamicLayerFrontMode", "a transform of torch.func"]
    assert "the call raises NotImplementedError" in explain("aten::_cudnn_init_dropout_state", x)
    with pytest.raises(ValueError, match="there is no overload 'aten::no_such'"):
        explain("aten::no_such", x)
