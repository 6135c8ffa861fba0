"""Convolutions with what follows them in one kernel, as `max-autotune` makes them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code

from torch_outboard import _C
from torch_outboard.inductor.lowerings import convolutions
from torch_outboard.ops.products.texts import group_text, patch_text, plane_text

pytestmark = pytest.mark.usefixtures("always_fused")

MODE = "max-autotune-no-cudagraphs"
MEASURED = convolutions._measured
# Of float32, float16 and bfloat16, against float64.
TOLERANCES = {torch.float32: 3e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1}


def strides_of(tensor: torch.Tensor) -> list[int]:
    """Of dimensions in which elements have neighbours."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in sizes if size > 1]


def check(
    model: nn.Module, *given: torch.Tensor, device: torch.device, fused: int = 1, **options: Any
) -> Any:
    """A compiled model on the device gives what it gives in float64 on CPU; returns the graph."""
    dtype = given[0].dtype
    exact = copy.deepcopy(model).double()
    graph = torch.compile(copy.deepcopy(model).to(device), mode=MODE, **options)
    with torch.no_grad():
        layout = model(*given)
        expected = exact(*(x.double() for x in given))
        actual = graph(*(x.to(device) for x in given))
    assert counters[device.type]["fused_convolutions"] == fused
    single = isinstance(actual, torch.Tensor)
    results = zip(*(([x] if single else x) for x in (actual, expected, layout)), strict=True)
    for ours, right, eager in results:
        assert ours.dtype == eager.dtype
        assert strides_of(ours) == strides_of(eager)
        bound = TOLERANCES[dtype] * max(1.0, float(right.abs().max()))
        torch.testing.assert_close(ours.cpu().double(), right.double(), rtol=0, atol=bound)
    return graph


def normed(channels: int) -> nn.BatchNorm2d:
    """A batch norm in inference that changes something."""
    norm = nn.BatchNorm2d(channels)
    for tensor in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
        assert tensor is not None
        tensor.uniform_(0.5, 2)
    return norm


# Sizes that Winograd's algorithm, planes, gathered patches and products of patches take on
# processors.
SHAPES = {
    "winograd": ((2, 32, 17, 19), {"out_channels": 36, "kernel_size": 3, "padding": 1}),
    "planes": ((2, 8, 17, 19), {"out_channels": 12, "kernel_size": 3, "stride": 2, "padding": 1}),
    "gathered": ((3, 16, 6, 6), {"out_channels": 64, "kernel_size": 5, "padding": 2}),
    "groups": ((2, 12, 11, 13), {"out_channels": 24, "kernel_size": 3, "groups": 3, "dilation": 2}),
    "channels": ((2, 6, 11, 13), {"out_channels": 6, "kernel_size": 3, "groups": 6, "padding": 1}),
    "pointwise": ((2, 12, 11, 13), {"out_channels": 20, "kernel_size": 1}),
    "one position": ((2, 12, 3, 3), {"out_channels": 20, "kernel_size": 3}),
}


class Block(nn.Module):
    """A convolution, a batch norm, an activation, and what was there before or nothing."""

    def __init__(self, convolution: nn.Module, channels: int, activation: Any) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, normed(channels)
        self.activation = activation

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        result = self.norm(self.convolution(x))
        return self.activation(result if other is None else result + other)


ACTIVATIONS = (F.silu, F.gelu, torch.sigmoid, F.hardswish, F.leaky_relu, F.mish, F.tanh)


class Several(nn.Module):
    """Modules side by side, each with as many arguments as the others."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, *given: torch.Tensor) -> list[torch.Tensor]:
        count = len(given) // len(self.parts)
        return [part(*given[i * count : i * count + count]) for i, part in enumerate(self.parts)]


@pytest.mark.by_turns(4)
@pytest.mark.parametrize(
    ("dtype", "layout", "residual"),
    [
        (torch.float32, torch.contiguous_format, False),
        (torch.float32, torch.channels_last, True),
        (torch.float16, torch.contiguous_format, True),
        (torch.bfloat16, torch.channels_last, True),
    ],
    ids=str,
)
def test_norm_and_activation(device, dtype, layout, residual):
    blocks, given = [], []
    for (sizes, parameters), activation in zip(SHAPES.values(), ACTIVATIONS, strict=True):
        convolution = nn.Conv2d(sizes[1], bias=residual, **parameters)
        blocks.append(Block(convolution, parameters["out_channels"], activation).eval().to(dtype))
        given.append(torch.randn(sizes, dtype=dtype).contiguous(memory_format=layout))
        if residual:
            with torch.no_grad():
                given.append(torch.randn_like(blocks[-1].convolution(given[-1])))
    check(Several(*blocks), *given, device=device, fused=len(SHAPES))


class Activated(nn.Module):
    """A layer and a function of its results."""

    def __init__(self, layer: nn.Module, function: Any) -> None:
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(self.layer(given[0]), *given[1:])


class Residual(nn.Module):
    """Each convolution has its own epilogue, the last one with the other branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, 3, padding=1, stride=2, bias=False)
        self.second = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(normed(16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.norms[2](self.shortcut(x))).relu()


def test_dimensions_transposed_and_branches(device):
    layers = {
        nn.Conv1d(6, 9, 5, padding=2): (3, 6, 31),
        nn.Conv3d(4, 6, 3, padding=1): (2, 4, 5, 7, 9),
        nn.ConvTranspose2d(6, 9, 3, padding=1): (2, 6, 9, 11),
        nn.ConvTranspose2d(6, 9, 4, stride=2, padding=1): (2, 6, 9, 11),
        nn.ConvTranspose2d(32, 40, 3): (2, 32, 13, 13),
        nn.ConvTranspose1d(4, 2, 3, stride=3, output_padding=1): (2, 4, 8),
    }
    model = Several(*(Activated(layer, torch.tanh) for layer in layers), Residual().eval())
    given = map(torch.randn, (*layers.values(), (2, 8, 18, 18)))
    check(model, *given, device=device, fused=len(layers) + 3)


@pytest.mark.by_turns(2)
def test_many_images(device):
    """More than are transformed or packed at a time: operands and results go along."""
    for images, kernel, channels in ((14, 3, 36), (40, 5, 4)):
        layer = nn.Conv2d(32, channels, kernel, padding=kernel // 2)
        model = Activated(layer, lambda result, other: ((result + other).relu(), result))
        counters.clear()
        given = (torch.randn(images, size, 48, 48) for size in (32, channels))
        check(model, *given, device=device)


def test_several_results_and_casts(device):
    def follow(result):
        return result.relu().half(), result > 0, result.sigmoid() * result

    model = Activated(nn.Conv2d(5, 7, 3), follow)
    x = torch.randn(2, 5, 9, 9)
    graph = torch.compile(copy.deepcopy(model).to(device), mode=MODE)
    with torch.no_grad():
        actual, expected = graph(x.to(device)), model(x)
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-3, atol=1e-3)
    assert counters[device.type]["fused_convolutions"] == 1


def test_open_batch_size(device):
    model = Block(nn.Conv2d(6, 8, 3, padding=1), 8, F.relu).eval()
    graph = check(model, torch.randn(3, 6, 10, 10), device=device, dynamic=True)
    x = torch.randn(5, 6, 10, 10)
    with torch.no_grad():
        torch.testing.assert_close(
            graph(x.to(device)), model(x), check_device=False, rtol=1e-4, atol=1e-4
        )
    assert counters["stats"]["unique_graphs"] == 1


def test_training(device):
    """Gradients of a convolution are what eager mode calls, of what it kept."""
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.GELU(), nn.Conv2d(8, 4, 3), nn.ReLU())
    ours = copy.deepcopy(model).to(device)
    x = torch.randn(2, 4, 12, 12)
    torch.compile(ours, mode=MODE)(x.to(device)).square().sum().backward()
    model(x).square().sum().backward()
    for actual, expected in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(
            actual.grad, expected.grad, check_device=False, rtol=1e-3, atol=1e-3
        )
    assert counters[device.type]["fused_convolutions"] == 2


def test_what_an_epilogue_cannot_have(device):
    follow = (
        lambda result: result,
        lambda result: result.double() * 2,
        lambda result: result.permute(0, 2, 3, 1) + torch.ones(7, device=result.device),
        lambda result: result - result.mean(),
    )
    model = Several(*(Activated(nn.Conv2d(5, 7, 3), function) for function in follow))
    check(model, *(torch.randn(2, 5, 9, 9) for _ in follow), device=device, fused=0)


def test_measuring(device, monkeypatch):
    """Whichever is measured to be faster gives the same."""
    monkeypatch.setattr(convolutions, "_measured", MEASURED)
    x, other = (torch.randn(2, c, 10, 10, device=device) for c in (6, 8))
    layer = nn.Conv2d(6, 8, 3, padding=1).to(device)
    model = Activated(layer, lambda result, other: ((result + other).relu(), result))
    with torch.no_grad():
        actual, expected = torch.compile(model, mode=MODE)(x, other), model(x, other)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert convolutions._measured.cache_info().currsize > 0


def test_wrong_operands(device):
    kernel = _C.FusedConvolution(patch_text(), plane_text(), group_text())
    x, w = torch.zeros(1, 3, 8, 8, device=device), torch.zeros(4, 3, 3, 3, device=device)
    fit, dtype = "images and a weight that fit", "of one floating dtype on one device"
    for message, weight, bias, stride, operands in (
        (fit, w[:, :2], None, [1], []),
        (fit, torch.zeros(4, 3, 9, 9, device=device), None, [1], []),
        (fit, w, None, [0], []),
        (dtype, w.cpu(), None, [1], []),
        (dtype, w.half(), None, [1], []),
        ("the bias of 4 channels", w, torch.zeros(3, device=device), [1], []),
        ("a tensor on", w, None, [1], [torch.zeros(4)]),
    ):
        texts = _C.EpilogueTexts("", 0, "r[0] = a;", "r" if operands else "")
        with pytest.raises(ValueError, match=message):
            kernel(
                x, weight, bias, stride, [0], [1], False, [0], 1, texts, operands, [torch.float32]
            )


@pytest.mark.parametrize("mode", [None, MODE])
def test_a_bias_is_given_to_the_kernel(mode: str | None, device: torch.device):
    """Nothing is left to a kernel of its own where sums over a result follow."""

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.group_norm(F.conv2d(x, weight, bias, padding=1), 2)

    given = (torch.randn(2, 3, 9, 11), torch.randn(4, 3, 3, 3), torch.randn(4))
    compiled = torch.compile(function, mode=mode)
    actual, codes = run_and_get_code(compiled, *(x.to(device) for x in given))
    assert "bias=None" not in codes[0]
    torch.testing.assert_close(actual.cpu(), function(*given), rtol=1e-4, atol=1e-4)
