"""Around a compiled backward pass: hooks, donated memory, compiled autograd."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.slow


def test_donated_buffers_and_hooks_of_saved_tensors(device: torch.device):
    def gradient(run: Callable[[torch.Tensor], torch.Tensor], device: object) -> torch.Tensor:
        x = torch.linspace(0, 1, 60).reshape(6, 10).to(device).requires_grad_()
        run(x).square().sum().backward()
        assert x.grad is not None
        return x.grad.cpu()

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.sin().exp() * x.cos()).softmax(-1)

    packed = []

    def pack(saved: torch.Tensor) -> torch.Tensor:
        packed.append(saved.device.type)
        return saved.cpu()

    expected = gradient(function, "cpu")
    with torch._functorch.config.patch(donated_buffer=True):
        torch.testing.assert_close(gradient(torch.compile(function), device), expected)
    torch.compiler.reset()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.to(device)):
        torch.testing.assert_close(gradient(torch.compile(function), device), expected)
    assert device.type in packed


def test_compiled_autograd(device: torch.device):
    import torch._dynamo.compiled_autograd as compiled_autograd

    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).to(device)
    x = torch.randn(3, 4, device=device)
    model(x).sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    with compiled_autograd._enable(torch.compile()):
        model(x).sum().backward()
    for parameter, want in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, want)
