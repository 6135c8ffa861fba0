"""TorchScript on the device: trace, script, save, load, freeze, fuse."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


@pytest.fixture(autouse=True)
def builtins_of_pytorch(monkeypatch):
    """TorchScript knows built-in functions by their ids, also those of operators that are gone.

    An attribute of a module that gets such an id (another test destroyed the operator's library, or
    defined another overload) is taken for the function: "builtin cannot be used as a value".
    """
    builtins = torch.jit._builtins
    known = builtins._get_builtin_table().items()
    of_pytorch = {number: name for number, name in known if name.startswith("aten::")}
    monkeypatch.setattr(builtins, "_builtin_table", of_pytorch)


class Branching(nn.Module):
    """Convolution, statistics, a loop and a branch on what is there at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.convolution(x)))
        for step in range(2):
            if bool(x.sum() > step):
                x = x + 1
        return self.linear(x.flatten(1))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Branching().eval()


@pytest.fixture
def images():
    return torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def check(actual, expected, device):
    assert actual.device == device
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)


def saved(module):
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return file


def on_device(model, device):
    return copy.deepcopy(model).to(device)


def operators(traced):
    return [n.kind() for n in traced.inlined_graph.nodes() if n.kind().startswith("aten::")]


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (Branching().eval(), (2, 1, 6, 6)),
        (nn.ConvTranspose2d(2, 2, 2), (1, 2, 4, 4)),
        (nn.LSTM(3, 3), (2, 1, 3)),
        (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (2, 4, 4)),
    ],
    ids=["Branching", "ConvTranspose2d", "LSTM", "TransformerEncoderLayer"],
)
def test_traces_have_the_operators_of_cpu(layer, size, device):
    """A kernel for a composite must not hide what a trace records in it."""
    x = torch.randn(size)
    expected = torch.jit.trace(layer, x)
    ours = torch.jit.trace(on_device(layer, device), x.to(device))
    assert operators(ours) == operators(expected)
    for traced in (ours, torch.jit.load(saved(ours))):
        found, wanted = (tree_leaves(each)[0] for each in (traced(x.to(device)), expected(x)))
        check(found, wanted, device)


def test_saved_and_loaded(model, images, device):
    cpu = torch.device("cpu")
    for first, then in ((cpu, device), (device, cpu), (device, None)):
        scripted = torch.jit.script(on_device(model, first))
        loaded = torch.jit.load(saved(scripted), map_location=then)
        target = then or first
        check(loaded(images.to(target)), model(images), target)
        assert {parameter.device for parameter in loaded.parameters()} == {target}
    moved = loaded.cpu().to(device)
    check(copy.deepcopy(moved)(images.to(device)), model(images), device)


@pytest.mark.parametrize("optimize", [torch.jit.freeze, torch.jit.optimize_for_inference])
def test_frozen(model, images, device, optimize):
    frozen = optimize(torch.jit.script(on_device(model, device)))
    for _ in range(3):
        check(frozen(images.to(device)), model(images), device)
    check(torch.jit.load(saved(frozen))(images.to(device)), model(images), device)


def test_fusers_leave_the_device_right(device):
    """PyTorch's fuser makes code for CPU and CUDA; here the operators run one by one."""

    @torch.jit.script
    def chain(a, b):
        return torch.tanh(a * b + a).relu() * 2.0 + b

    a, b = torch.randn(5, 6), torch.randn(6)
    expected = torch.tanh(a * b + a).relu() * 2.0 + b
    with torch.jit.fuser("fuser1"):
        for _ in range(4):
            check(chain(a.to(device), b.to(device)), expected, device)


def test_devices_in_scripts(device):
    unit = torch.jit.CompilationUnit(
        f"""
def made():
    return torch.ones([2], device=torch.device("{device.type}", 0))

def moved(x: Tensor):
    return x.to("{device.type}")

def asked(x: Tensor):
    return x.device.type, x.device.index, torch.zeros([2], device=x.device)
"""
    )
    assert unit.made().device == device
    assert unit.moved(torch.ones(2)).device == device
    name, index, zeros = unit.asked(unit.made())
    assert (name, index, zeros.device) == (device.type, device.index, device)


@pytest.mark.slow
def test_every_operator_is_traced_as_on_cpu(device):
    # It changes how the whole process runs scripts.
    from torch.testing._internal.common_methods_invocations import op_db

    compared, different = 0, []
    for op in op_db:
        # Its argument with the indices to split at has to be on CPU.
        if torch.float32 not in op.supported_dtypes("cpu") or op.name == "tensor_split":
            continue
        try:
            sample = next(iter(op.sample_inputs("cpu", torch.float32)))
            expected = traced_operators(op, sample, torch.device("cpu"))
        except Exception:  # not every operator can be traced
            continue
        compared += 1
        found = traced_operators(op, sample, device)
        if found != expected:
            different.append((op.formatted_name, found, expected))
    assert compared > 500
    assert different == []


def traced_operators(op, sample, device):
    def move(value):
        if isinstance(value, torch.Tensor):
            return value.to(device)
        return device if isinstance(value, torch.device) else value

    arguments = tree_map(move, [sample.input, *sample.args])
    keywords = tree_map(move, sample.kwargs)
    indices = [i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor)]

    def call(*tensors):
        given = list(arguments)
        for index, tensor in zip(indices, tensors, strict=True):
            given[index] = tensor
        return op(*given, **keywords)

    traced = torch.jit.trace(call, tuple(arguments[i] for i in indices), check_trace=False)
    return operators(traced)
