"""Autocast and the gradient scaler in whole programs: what they do on CPU, they do here."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from tests.support import in_threads

pytestmark = pytest.mark.separate


def on_both(device: torch.device, function):
    """What a function of a device answers, on CPU and here."""
    return function(torch.device("cpu")), function(device)


@pytest.mark.parametrize("cache", [True, False])
def test_nesting(device, cache):
    def dtypes(where):
        x = torch.ones(4, 4, device=where)
        seen = []
        with torch.autocast(where.type, dtype=torch.bfloat16, cache_enabled=cache):
            seen.append((x @ x).dtype)
            with torch.autocast(where.type, enabled=False):
                seen.append((x @ x).dtype)
                with torch.autocast(where.type, dtype=torch.float16):
                    seen.append((x @ x).dtype)
                seen.append((x @ x).dtype)
            seen.append((x @ x).dtype)
            seen.append(torch.is_autocast_cache_enabled())
        return [*seen, (x @ x).dtype, torch.is_autocast_enabled(where.type)]

    expected, found = on_both(device, dtypes)
    assert found == expected
    low, single, half = torch.bfloat16, torch.float32, torch.float16
    assert found[:5] == [low, single, half, single, low]


def test_other_devices_are_left_alone(device):
    x = torch.ones(4, 4)
    with torch.autocast(device.type, dtype=torch.float16):
        assert (x @ x).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (x @ x).dtype == torch.bfloat16
            assert (x.to(device) @ x.to(device)).dtype == torch.float16


def test_a_changed_weight_is_cast_anew_after_the_region(device):
    layer = nn.Linear(4, 4, bias=False).to(device)
    x = torch.ones(1, 4, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        before = layer(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        after = layer(x)
    torch.testing.assert_close(after, 2 * before)


def test_threads_have_their_own_autocast(device):
    x = torch.ones(4, 4, device=device)
    dtypes = (torch.float16, torch.bfloat16, None)
    barrier = threading.Barrier(3)

    def work(number: int) -> set[torch.dtype]:
        dtype = dtypes[number]
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            barrier.wait(60)
            seen = {(x @ x).dtype for _ in range(20)}
            barrier.wait(60)
        return seen

    with torch.autocast(device.type, dtype=torch.float16):
        assert in_threads(work, 3) == [{dtype or torch.float32} for dtype in dtypes]


# ---- Functions with their own derivatives


@pytest.mark.parametrize("cast_inputs", [None, torch.float32, torch.float16])
def test_custom_forward_and_backward(device, cast_inputs):
    def run(where):
        seen = []

        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type=where.type, cast_inputs=cast_inputs)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                result = a @ b
                seen.append((a.dtype, result.dtype, torch.is_autocast_enabled(where.type)))
                return result

            @staticmethod
            @torch.amp.custom_bwd(device_type=where.type)
            def backward(ctx, gradient):
                a, b = ctx.saved_tensors
                enabled = torch.is_autocast_enabled(where.type)
                seen.append((gradient.dtype, a.dtype, enabled))
                return gradient @ b.t(), a.t() @ gradient

        a = torch.ones(3, 3, device=where, requires_grad=True)
        b = torch.ones(3, 3, device=where, requires_grad=True)
        with torch.autocast(where.type, dtype=torch.bfloat16):
            result = Product.apply(a, b)
        result.float().sum().backward()
        outside = Product.apply(a, b).dtype
        return seen, outside, a.grad.dtype, a.grad.tolist()

    expected, found = on_both(device, run)
    assert found == expected
    assert found[0][0][2] is (cast_inputs is None)


# ---- The gradient scaler


def with_infinite_gradient(where, optimizer, **options):
    """Two optimizers share a scaler; the gradients of the first are infinite."""
    parameters = [torch.ones(4, device=where, requires_grad=True) for _ in range(2)]
    optimizers = [optimizer([p], lr=0.5, **options) for p in parameters]
    scaler = torch.amp.GradScaler(where.type, init_scale=4.0, growth_interval=1)
    scaler.scale(parameters[0].sum() * float("inf") + parameters[1].sum()).backward()
    scaler.unscale_(optimizers[1])
    unscaled = parameters[1].grad.tolist()
    for each in optimizers:
        scaler.step(each)
    scaler.update()
    scales = [scaler.get_scale()]
    for each in optimizers:
        each.zero_grad()
    scaler.scale(parameters[0].sum() + parameters[1].sum()).backward()
    for each in optimizers:
        scaler.step(each)
    scaler.update()
    scales.append(scaler.get_scale())
    return unscaled, scales, [p.detach().cpu() for p in parameters]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_one_optimizers_infinity_skips_its_step_alone(device, optimizer, fused):
    expected, found = on_both(
        device, lambda where: with_infinite_gradient(where, optimizer, fused=fused)
    )
    assert found[:2] == expected[:2]
    assert found[1] == [2.0, 4.0]
    torch.testing.assert_close(found[2], expected[2])


def test_misuse_of_the_scaler_is_refused(device):
    parameter = torch.ones(4, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.get_device_module(device).amp.GradScaler()
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    parameter.grad = None
    scaler.update()
    half = torch.ones(4, device=device, dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.SGD([half], lr=0.1)
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16"):
        scaler.unscale_(optimizer)
