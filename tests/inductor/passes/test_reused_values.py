"""Values that cost much and have several readers."""

from __future__ import annotations

import re

import pytest
import torch

from tests.inductor.support import check, check_sizes, checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(3)


def waves(x: torch.Tensor) -> torch.Tensor:
    """A sine with two readers, which are not in one kernel: sums of columns come first."""
    wave = x.sin()
    return (wave - wave.sum(0) * 0.1).cos()


def kernels(code: str) -> list[str]:
    return code.split("program.kernel(")[1:]


def sines(code: str) -> int:
    """Variables of all kernels that are sines."""
    return sum(len(set(re.findall(r"(tmp\d+)\w* = ob_sin_", each))) for each in kernels(code))


def test_one_is_stored(device: torch.device):
    code = checked_code(waves, torch.randn(24, 40), device=device, tolerance=1e-4)
    # A GPU waits for memory.
    assert sines(code) == (1 if target_of(device).lanes > 1 else 2)


def test_a_cheap_one_is_computed_anew(device: torch.device):
    def function(x):
        cube = x**3
        return (cube - cube.sum(0) * 0.1).cos()

    code = checked_code(function, torch.randn(24, 40), device=device, tolerance=1e-4)
    assert kernels(code)[0].count("OB_POINTER(") == 2  # the argument, and sums


def test_readers_of_views_count(device: torch.device):
    """A view that several read, of a value that nobody else does."""

    def function(x):
        turned = (x.sin() * 2).t()
        return turned.sum(0).exp(), (turned - turned.sum(1, keepdim=True)).cos().sum(0)

    code = checked_code(function, torch.randn(24, 40), device=device)
    if target_of(device).lanes > 1:
        assert sines(code) == 1


def test_sizes_stay_open(device: torch.device):
    calls = [(torch.randn(size, 9),) for size in (8, 24, 700)]
    with torch._dynamo.config.patch(error_on_recompile=True):
        check_sizes(waves, *calls, device=device, tolerance=1e-4)


def test_gradients_and_other_layouts(device: torch.device):
    def function(x):
        wave = x.sin()
        result = (wave.sum(1, keepdim=True) - wave).tanh().mean(0) + wave.exp().amax(0)
        return result, *torch.autograd.grad(result.square().sum(), x)

    x = torch.randn(4, 5, 6, 7).to(memory_format=torch.channels_last)
    check(function, x.requires_grad_(), device=device, tolerance=1e-4)


def test_what_several_read_is_stored_alone(device: torch.device):
    """The derivative of SiLU uses a sigmoid twice; two kernels read its product."""

    def function(x, y):
        gate = x.sigmoid()
        slope = y * gate * (1 + x * (1 - gate))
        return (slope - slope.sum(0) * 0.1).cos()

    given = torch.randn(24, 40), torch.randn(24, 40)
    code = checked_code(function, *given, device=device, tolerance=1e-4)
    if target_of(device).lanes > 1:
        # The product, in whose place the result is written at last.
        assert set(re.findall(r"ob_store_\w+\((\w+),", kernels(code)[0])) == {"in_out_ptr0"}


def test_one_that_is_read_at_several_places_is_stored(device: torch.device):
    """Turned on the way, or where many elements come from it."""

    def turned(x):
        wave = x.sin()
        return (wave + wave.t() * 2).exp()

    def gathered(x):
        return torch.nn.functional.interpolate(x.sin(), scale_factor=2.0) + 1

    def expanded(x):
        return x.sin()[None].expand(9, -1, -1, -1, -1) + 1

    images, square = torch.randn(4, 5, 70, 71), torch.randn(40, 40)
    for function, x in ((turned, square), (gathered, images), (expanded, images)):
        code = checked_code(function, x, device=device)
        if target_of(device).lanes > 1:
            assert sines(code) == 1
            assert "ob_sin_" not in kernels(code)[-1]


def test_rows_that_are_the_same_are_computed_once_anyway(device: torch.device):
    def function(x):
        return x.sin()[:, None].expand(-1, 300) + 1

    assert len(kernels(checked_code(function, torch.randn(500), device=device))) == 1


def test_what_operators_take(device: torch.device):
    """Sums read it, though they come before; nothing is turned on the way to a product."""

    def summed(x, y, weight):
        rows = x.transpose(0, 1) + y
        return rows.sum(0), rows.reshape(-1, 24) @ weight

    def turned(x, y):
        return (x.transpose(1, 2) * 2) @ y

    given = torch.randn(24, 8, 40).transpose(1, 2), torch.randn(40, 24, 8), torch.randn(24, 5)
    code = checked_code(summed, *given, device=device, tolerance=1e-4)
    has_vectors = target_of(device).lanes > 1
    if has_vectors:
        assert sum("OB_POINTER(float, in_ptr1)" in kernel for kernel in kernels(code)) == 1
    given = torch.randn(3, 24, 40), torch.randn(3, 24, 5)
    code = checked_code(turned, *given, device=device, tolerance=1e-4)
    if has_vectors:
        assert "ob_gather" not in code
