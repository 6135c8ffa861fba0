"""Kernels of compiled graphs: values, memory, indices."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code
from torch.testing import assert_close

import torch_outboard
from tests.inductor.support import check, kernels_of
from torch_outboard.inductor.target import target_of


def test_a_chain_becomes_one_kernel(device: torch.device):
    """Four operators, a tail of vectors, an operand that is broadcast, one transposed."""

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return (x * y + z.t()).relu().sin()

    x, y, z = torch.randn(37, 53), torch.randn(53), torch.randn(53, 37)
    check(function, x, y, z, device=device)
    code = kernels_of(function, x.to(device), y.to(device), z.to(device))
    assert code.count("__kernel void") == 1


def test_dtypes_meet_as_in_eager_mode(device: torch.device):
    def function(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, e: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        flags = (a > 2) & (b < 1)
        return (
            a + b, a // 3, b % 4, c * c, c + 200, flags, ~flags, a.float() / 2, e.double() + d,
            torch.where(flags, a, b), (a * 3).to(torch.int8), d.to(torch.bool), a**2, e.exp(),
            e.half() + 1, flags.sum(), c.sum(0), d.amax(0), d.argmax(1), flags.any(1),
        )  # fmt: skip

    check(
        function,
        torch.randint(-9, 9, (33, 21)),
        torch.randint(-9, 9, (33, 21), dtype=torch.int32),
        torch.randint(0, 99, (33, 21), dtype=torch.uint8),
        torch.randn(33, 21, dtype=torch.float64),
        torch.randn(33, 21).to(torch.bfloat16),
        device=device,
        tolerance=1e-2,
    )


def test_truth_values_and_integers_of_the_same_text(device: torch.device):
    """0 and false are written alike, and mean different things when they are converted."""

    def function(i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return i.angle(), i.heaviside(i + 1), i.nansum(), i.nan_to_num()

    check(function, torch.arange(-20, 17, dtype=torch.int32), device=device)


@pytest.mark.by_turns(3)
def test_quotients_of_places_before_the_first(device: torch.device):
    """The gradient of a pool with padding divides negative places, and takes those from 0 on."""

    def function(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.avg_pool2d_backward(g, x, [4, 4], [2, 3], [1, 1], True, False, 2)

    check(function, torch.randn(1, 3, 5, 4), torch.randn(1, 3, 9, 9), device=device)
    check(function, torch.randn(1, 3, 13, 12), torch.randn(1, 3, 25, 33), device=device)


def test_bits_of_values(device: torch.device):
    """Of what a kernel has computed: rounded to 16 bits before."""

    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x / 3
        return (
            y.view(torch.int16) * 2, y.view(torch.bfloat16) + 1, (i * 3).view(torch.float16) * 2,
            (i & 0x3FFF).view(torch.bfloat16) * 2, x.float().view(torch.int32) + 1,
        )  # fmt: skip

    i = torch.randint(0, 999, (37,)).short()
    check(function, torch.randn(37).half(), i, device=device, tolerance=0)


def test_bits_of_truth_values(device: torch.device):
    from torch._inductor import lowering

    if "torch.bool" not in inspect.getsource(lowering.to_dtype_bitcast):
        pytest.skip("this PyTorch, 2.11 say, does not compile views of bool for any device")

    def function(flags: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return flags.view(torch.uint8) + 1, (i & 1).view(torch.bool) | flags

    flags, i = torch.randn(37) > 0, torch.arange(37).to(torch.uint8)
    check(function, flags, i, device=device)


def test_numbers_from_open_sizes(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return x + round(n / 7.0, 2), x + round(n * 123.4, -2), x * n**0.5, x / (n // 4 + 1)

    check(function, torch.randn(37), device=device, dynamic=True)
    check(function, torch.randn(5), device=device, dynamic=True)


def test_masks_keep_loads_within_memory(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        padded = F.pad(x, (1, 2, 3, 4))
        return padded + 1, torch.cat([x, x[..., :5] * 2], -1), F.max_pool2d(x, 2)

    check(function, torch.randn(2, 3, 20, 20), device=device)


@torch._inductor.config.patch(debug_index_asserts=True)
def test_computed_indices_that_are_checked(device: torch.device):
    """One of a whole row, which counts where a mask of its elements does."""

    def function(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.reflection_pad2d_backward(gradient, x, (1, 2, 3, 4))

    check(function, torch.randn(1, 1, 15, 11), torch.randn(1, 1, 8, 8), device=device)


def test_indices_that_are_read(device: torch.device):
    def function(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[i] * 2, x.index_add(0, i, y), x.scatter_add(0, i[:, None] % 3 + y.long() * 0, y)

    i = torch.randint(-20, 20, (50,))
    check(function, torch.randn(20, 5), i % 20, torch.randn(50, 5), device=device, tolerance=1e-4)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("processors", [1, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_places_that_add_up(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, processors: int, dtype: torch.dtype
):
    """By one processor, or by many and atomic exchanges, where it takes more of them to pay."""
    target = target_of(device)
    if target.group > 1:
        pytest.skip("a GPU always has many")
    forced = dataclasses.replace(target, processors=processors)
    monkeypatch.setattr("torch_outboard.inductor.kernel.body.target_of", lambda _: forced)
    i, y = torch.arange(3000) * 7 % 11, torch.ones(3000, 20).to(dtype)

    def function(y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(11, 20, dtype=y.dtype, device=y.device)
        return zeros.index_put((i,), y, True)

    given = y.to(device), i.to(device)
    result, (code,) = run_and_get_code(torch.compile(function), *given)
    assert ("ob_accumulate_" in code) == (processors == 1)
    assert ("ob_atomic_add_" in code) == (processors == 64)
    assert_close(result.cpu(), function(y, i))


def test_a_wrong_index_is_raised_and_not_followed(device: torch.device):
    x, i = torch.randn(4, 3, device=device), torch.tensor([0, 9], device=device)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        torch.compile(lambda x, i: x[i] + 1)(x, i).cpu()
    assert torch.compile(lambda x: x + 1)(x).cpu().shape == (4, 3)


def test_sizes_may_change(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 2).softmax(-1).sum(0), x.t().contiguous() + 1, x[1:].mean(), x.argmax(-1)

    compiled = torch.compile(function, dynamic=True)
    for sizes in ((5, 9), (7, 33), (20, 100)):
        x = torch.randn(sizes)
        actual = [result.cpu() for result in compiled(x.to(device))]
        torch.testing.assert_close(actual, list(function(x)), rtol=1e-5, atol=1e-5)


def test_mutation_views_and_scalars_of_the_host(device: torch.device):
    def function(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        y = x.clone()
        y[2].add_(scale)
        return y, y.t(), x[1:]

    x = torch.randn(6, 40)
    ours, theirs = x.to(device), x.clone()
    actual = torch.compile(function)(ours, torch.tensor(3.0))
    expected = function(theirs, torch.tensor(3.0))
    torch.testing.assert_close([a.cpu() for a in actual], list(expected))
    torch.testing.assert_close(ours.cpu(), theirs)
    # The second result is a view of the first, as in eager mode.
    assert actual[1].data_ptr() == actual[0].data_ptr()


@pytest.mark.slow
def test_branches(device: torch.device):
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sin() * 2, (x,))

    for shift in (-5.0, 5.0):
        check(function, torch.randn(20, 33) + shift, device=device, tolerance=1e-5)
        torch.compiler.reset()


@pytest.mark.slow
def test_every_device_of_a_process(device_module: object):
    if torch.accelerator.device_count() < 2:
        pytest.skip("there is one device")
    second = torch.device(torch_outboard.device_name(), 1)
    result = torch.compile(lambda x: x * 2 + 1)(torch.ones(5, device=second))
    assert result.device == second
    assert result.tolist() == [3.0] * 5


def test_halves_at_any_place(device: torch.device):
    """Vectors of them that do not begin at an address of whole vectors, and places that add up."""
    x, i = torch.randn(3, 25).half(), torch.tensor([1, 4, 1])

    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros(5, 25, dtype=x.dtype, device=x.device)
        return zeros.index_put((i,), x, True), x[1:, 1:].float() * 2, (x[1:] * 2).relu()

    check(function, x, i, device=device, tolerance=2e-3)


def test_flags_are_compared(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.amax(1), x.amin(0), torch.maximum(x, x.t()), torch.minimum(x, x.t())

    check(function, torch.randn(21, 21) > 0, device=device)


@pytest.mark.by_turns(3)
def test_places_that_are_checked_from_below_alone(device: torch.device):
    """The gradient of a maximum of windows adds at places that cannot be too large."""

    def function(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(F.max_pool2d(x.relu(), 3, 2, 1).sum(), x)
        return gradient

    check(function, torch.randn(2, 3, 32, 32, requires_grad=True), device=device)
    torch.get_device_module(device).synchronize()
