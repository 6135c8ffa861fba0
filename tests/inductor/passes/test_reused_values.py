"""Values that cost much and have several readers."""

from __future__ import annotations

import re

import pytest
import torch

from tests.inductor.support import check, kernels_of, moved
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(3)


def waves(x: torch.Tensor) -> torch.Tensor:
    """A sine with two readers, which are not in one kernel: sums of columns come first."""
    wave = x.sin()
    return (wave - wave.sum(0) * 0.1).cos()


def sines(code: str) -> int:
    """Variables of all kernels that are sines."""
    kernels = code.split("program.kernel(")[1:]
    return sum(len(set(re.findall(r"(tmp\d+)\w* = ob_sin_", kernel))) for kernel in kernels)


def test_one_is_stored(device: torch.device):
    x = torch.randn(24, 40)
    # A GPU waits for memory.
    assert sines(kernels_of(waves, x.to(device))) == (1 if target_of(device).lanes > 1 else 2)
    check(waves, x, device=device, tolerance=1e-4)


def test_a_cheap_one_is_computed_anew(device: torch.device):
    def function(x):
        cube = x**3
        return (cube - cube.sum(0) * 0.1).cos()

    x = torch.randn(24, 40)
    first = kernels_of(function, x.to(device)).split("program.kernel(")[1]
    assert first.count("OB_POINTER(") == 2  # the argument, and sums
    check(function, x, device=device, tolerance=1e-4)


def test_readers_of_views_count(device: torch.device):
    """A view that several read, of a value that nobody else does."""

    def function(x):
        turned = (x.sin() * 2).t()
        return turned.sum(0).exp(), (turned - turned.sum(1, keepdim=True)).cos().sum(0)

    x = torch.randn(24, 40)
    code = kernels_of(function, x.to(device))
    if target_of(device).lanes > 1:
        assert sines(code) == 1
    check(function, x, device=device)


def test_sizes_stay_open(device: torch.device):
    compiled = torch.compile(waves, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for size in (8, 24, 700):
            x = torch.randn(size, 9)
            actual = compiled(x.to(device)).cpu()
            torch.testing.assert_close(actual, waves(x), rtol=1e-4, atol=1e-4)


def test_gradients_and_other_layouts(device: torch.device):
    def function(x):
        wave = x.sin()
        return (wave.sum(1, keepdim=True) - wave).tanh().mean(0) + wave.exp().amax(0)

    x = torch.randn(4, 5, 6, 7).to(memory_format=torch.channels_last)
    check(function, x, device=device)
    x = x.requires_grad_()

    def step(x):
        (gradient,) = torch.autograd.grad(function(x).square().sum(), x)
        return gradient

    on_device = x.detach().to(device).requires_grad_()
    torch.testing.assert_close(torch.compile(step)(on_device).cpu(), step(x), rtol=1e-4, atol=1e-4)


def test_what_several_read_is_stored_alone(device: torch.device):
    """The derivative of SiLU uses a sigmoid twice; two kernels read its product."""

    def function(x, y):
        gate = x.sigmoid()
        slope = y * gate * (1 + x * (1 - gate))
        return (slope - slope.sum(0) * 0.1).cos()

    x, y = torch.randn(24, 40), torch.randn(24, 40)
    if target_of(device).lanes > 1:
        first = kernels_of(function, x.to(device), y.to(device)).split("program.kernel(")[1]
        # The product, in whose place the result is written at last.
        assert set(re.findall(r"ob_store_\w+\((\w+),", first)) == {"in_out_ptr0"}
    check(function, x, y, device=device, tolerance=1e-4)


def test_one_that_is_turned_on_the_way_is_stored(device: torch.device):
    """It would be computed at two places."""

    def function(x):
        wave = x.sin()
        return (wave + wave.t() * 2).exp()

    x = torch.randn(40, 40)
    if target_of(device).lanes > 1:
        assert sines(kernels_of(function, x.to(device))) == 1
    check(function, x, device=device)


def test_one_that_many_elements_come_from_is_stored(device: torch.device):
    def gathered(x):
        return torch.nn.functional.interpolate(x.sin(), scale_factor=2.0) + 1

    def expanded(x):
        return x.sin()[None].expand(9, -1, -1, -1, -1) + 1

    x = torch.randn(4, 5, 70, 71)
    for function in (gathered, expanded):
        if target_of(device).lanes > 1:
            kernels = kernels_of(function, x.to(device)).split("program.kernel(")[1:]
            assert ["ob_sin_" in kernel for kernel in kernels] == [True, False]
        check(function, x, device=device)


def test_rows_that_are_the_same_are_computed_once_anyway(device: torch.device):
    def function(x):
        return x.sin()[:, None].expand(-1, 300) + 1

    code = kernels_of(function, torch.randn(500).to(device))
    assert code.count("program.kernel(") == 1
    check(function, torch.randn(500), device=device)


def test_sums_of_what_an_operator_takes_read_it(device: torch.device):
    """Though they come before the operator."""

    def function(x, y, weight):
        rows = x.transpose(0, 1) + y
        return rows.sum(0), rows.reshape(-1, 24) @ weight

    given = torch.randn(24, 8, 40).transpose(1, 2), torch.randn(40, 24, 8), torch.randn(24, 5)
    check(function, *given, device=device, tolerance=1e-4)
    if target_of(device).lanes > 1:
        kernels = kernels_of(function, *moved(given, device)).split("program.kernel(")[1:]
        assert sum("OB_POINTER(float, in_ptr1)" in kernel for kernel in kernels) == 1


def test_operators_take_values_in_the_layout_that_eager_mode_gives_them(device: torch.device):
    """Nothing is turned on the way to a product, which takes any layout."""

    def function(x, y):
        return (x.transpose(1, 2) * 2) @ y

    given = torch.randn(3, 24, 40), torch.randn(3, 24, 5)
    if target_of(device).lanes > 1:
        assert "ob_gather" not in kernels_of(function, *moved(given, device))
    check(function, *given, device=device, tolerance=1e-4)
