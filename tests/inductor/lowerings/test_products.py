"""Products of matrices with what follows them in one kernel, as `max-autotune` makes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from torch_outboard import _C
from torch_outboard.inductor.lowerings import products
from torch_outboard.ops.row import template

MODE = "max-autotune-no-cudagraphs"


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured differs from machine to machine."""
    if not _C.runs_code(0):
        pytest.skip("the device has no compiler for kernels")
    monkeypatch.setattr(products, "_measured", lambda *given: True)
    counters.clear()


def layers(x: Any, w: Any, b: Any, r: Any) -> Any:
    flat = x.reshape(-1, 64)
    return (
        F.gelu(F.linear(x, w, b)),
        F.relu(F.linear(x, w, b)) + r,
        F.hardtanh(F.linear(x, w), -3.0, 3.0) * b,
        F.linear(x, w, b) + r,
        torch.tanh(flat @ w.t() + b),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_linear_layers(device, dtype):
    torch.manual_seed(0)
    given = [torch.randn(size).to(dtype) for size in ((2, 23, 64), (70, 64), (70,), (2, 23, 70))]
    expected = layers(*(x.double() for x in given))
    graph = torch.compile(layers, mode=MODE)
    with torch.no_grad():
        actual = graph(*(x.to(device) for x in given))
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    for ours, right in zip(actual, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.cpu().double(), right, rtol=tolerance, atol=tolerance)
    assert counters[device.type]["fused_products"] >= 4


def test_training(device):
    """The mask of relu comes from its result, so the sum is not needed."""
    x, w, b = torch.randn(32, 64), torch.randn(48, 64), torch.randn(48)
    mine = [t.to(device).requires_grad_() for t in (x, w, b)]
    reference = [t.clone().requires_grad_() for t in (x, w, b)]
    graph = torch.compile(lambda x, w, b: F.relu(F.linear(x, w, b)), mode=MODE)
    for function, given in ((graph, mine), (lambda x, w, b: F.relu(F.linear(x, w, b)), reference)):
        function(*given).square().sum().backward()
    for ours, right in zip(mine, reference, strict=True):
        torch.testing.assert_close(ours.grad, right.grad, check_device=False, rtol=1e-4, atol=1e-3)
    assert counters[device.type]["fused_products"] == 1


def test_a_sum_that_somebody_else_needs_is_kept(device):
    def function(x, w):
        product = x @ w
        return product, product.relu()

    x, w = torch.randn(40, 40), torch.randn(40, 40)
    actual = torch.compile(function, mode=MODE)(x.to(device), w.to(device))
    torch.testing.assert_close(actual, function(x, w), check_device=False, rtol=1e-4, atol=1e-4)
    assert counters[device.type]["fused_products"] == 0


def test_what_is_not_faster_is_left_alone(device, monkeypatch):
    monkeypatch.setattr(products, "_measured", lambda *given: False)
    graph = torch.compile(lambda x, w: (x @ w).relu(), mode=MODE)
    x = torch.randn(40, 40, device=device)
    torch.testing.assert_close(graph(x, x), (x @ x).relu())
    assert counters[device.type]["fused_products"] == 0


def test_strides_of_operands(device):
    fused = _C.FusedProduct(template("matrix_product"), "return a * C(2) + b;")
    left, right = torch.randn(64, 33).t(), torch.randn(71, 128).t()[::2]
    added, other = torch.randn(33, 1), torch.randn(71, 33).t()
    expected = (left @ right + added) * 2 + other
    actual = fused(*(x.to(device) for x in (left, right, added, other)))
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-4)


def test_wrong_operands(device):
    fused = _C.FusedProduct(template("matrix_product"), "return a;")
    x = torch.zeros(4, 5, device=device)
    with pytest.raises(ValueError, match="matrices that fit"):
        fused(x, x, None, None)
    with pytest.raises(ValueError, match="one floating dtype on one device"):
        fused(x, x.t().cpu(), None, None)
    with pytest.raises(ValueError, match="one floating dtype on one device"):
        fused(x, x.t(), None, torch.zeros(4, 4, dtype=torch.int32, device=device))
    with pytest.raises(RuntimeError):
        fused(x, x.t(), torch.zeros(3, device=device), None)
