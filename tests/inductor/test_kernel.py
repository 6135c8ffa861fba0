"""Kernels of compiled graphs: values, memory, indices."""

import dataclasses
import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.inductor.support import check, check_sizes, checked_code, moved
from torch_outboard.inductor.target import target_of


def test_a_chain_becomes_one_kernel(device: torch.device):
    """Four operators, a tail of vectors, an operand that is broadcast, one transposed."""

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return (x * y + z.t()).relu().sin()

    given = torch.randn(37, 53), torch.randn(53), torch.randn(53, 37)
    assert checked_code(function, *given, device=device).count("__kernel void") == 1


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


def test_bits_of_values(device: torch.device):
    """Of what a kernel has computed: rounded to 16 bits before."""
    from torch._inductor import lowering

    # PyTorch 2.11, say, compiles views of bool for no device.
    has_bool = "torch.bool" in inspect.getsource(lowering.to_dtype_bitcast)

    def function(x: torch.Tensor, i: torch.Tensor, flags: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x / 3
        bits = (
            y.view(torch.int16) * 2, y.view(torch.bfloat16) + 1, (i * 3).view(torch.float16) * 2,
            (i & 0x3FFF).view(torch.bfloat16) * 2, x.float().view(torch.int32) + 1,
        )  # fmt: skip
        if not has_bool:
            return bits
        low = (i & 1).to(torch.uint8)
        return *bits, flags.view(torch.uint8) + 1, low.view(torch.bool) | flags

    x, i = torch.randn(37), torch.randint(0, 999, (37,)).short()
    check(function, x.half(), i, x > 0, device=device, tolerance=0)


def test_dynamic_shapes(device: torch.device):
    """In loops, reductions, and as numbers."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            (x * 2).softmax(-1).sum(0), x.t().contiguous() + 1, x[1:].mean(), x.argmax(-1),
            x + round(n / 7.0, 2), x + round(n * 123.4, -2), x * n**0.5, x / (n // 4 + 1),
        )  # fmt: skip

    sizes = ((5, 9), (7, 33), (20, 100))
    check_sizes(function, *((torch.randn(size),) for size in sizes), device=device)


@pytest.mark.by_turns(3)
@torch._inductor.config.patch(debug_index_asserts=True)
def test_computed_indices_that_are_checked(device: torch.device):
    """One of a whole row, which counts where a mask of its elements does."""

    def function(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.reflection_pad2d_backward(gradient, x, (1, 2, 3, 4))

    check(function, torch.randn(1, 1, 15, 11), torch.randn(1, 1, 8, 8), device=device)


def test_indices_that_are_read(device: torch.device):
    """And vectors of halves that do not begin at an address of whole vectors."""

    def function(
        x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, halves: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros(5, 25, dtype=halves.dtype, device=halves.device)
        return (
            x[i] * 2, x.index_add(0, i, y), x.scatter_add(0, i[:, None] % 3 + y.long() * 0, y),
            zeros.index_put((i[:3] % 5,), halves, True), halves[1:, 1:].float() * 2,
            (halves[1:] * 2).relu(),
        )  # fmt: skip

    i, y, halves = torch.randint(-20, 20, (50,)) % 20, torch.randn(50, 5), torch.randn(3, 25).half()
    i[:3] = torch.tensor([1, 4, 6])  # two of them at one index of five
    check(function, torch.randn(20, 5), i, y, halves, device=device, tolerance=2e-3)


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("processors", [1, 64])
def test_indices_that_add_up(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, processors: int
):
    """By one processor, or by many and atomic exchanges, where it takes more of them to pay."""
    target = target_of(device)
    if target.group > 1:
        pytest.skip("a GPU always has many")
    forced = dataclasses.replace(target, processors=processors)
    monkeypatch.setattr("torch_outboard.inductor.kernel.body.target_of", lambda _: forced)

    def function(i: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.zeros(11, 20, dtype=y.dtype, device=y.device).index_put((i,), y, True)
            for y in values
        ]

    # 250 at each index, a number that all dtypes have.
    i, ones = torch.arange(2750) * 7 % 11, torch.ones(2750, 20)
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.int32)
    given = (ones.to(dtype) for dtype in dtypes)
    code = checked_code(function, i, *given, device=device, tolerance=0)
    assert ("ob_accumulate_" in code) == (processors == 1)
    assert ("ob_atomic_add_" in code) == (processors == 64)


@pytest.mark.by_turns(3)
def test_gradients_of_pools(device: torch.device):
    """With padding they divide negative indices, or add at indices that cannot be too large."""

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *of_average, x = given
        options = [4, 4], [2, 3], [1, 1], True, False, 2
        average = torch.ops.aten.avg_pool2d_backward(*of_average, *options)
        return average, *torch.autograd.grad(F.max_pool2d(x.relu(), 3, 2, 1).sum(), x)

    of_average = torch.randn(1, 3, 13, 12), torch.randn(1, 3, 25, 33)
    x = torch.randn(2, 3, 32, 32, requires_grad=True)
    check(function, *of_average, x, device=device)
    torch.get_device_module(device).synchronize()


def test_mutation_views_and_scalars_of_the_host(device: torch.device):
    """Results are views of each other and of inputs, or are inputs, as in eager mode."""

    def function(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x[1:].mul_(2)
        y.t_()
        z = x.clone()
        z[2].add_(scale)
        return z, z.t(), x.view(-1)[3:], y + 1, x

    x, y, scale = torch.randn(6, 40), torch.randn(2, 5), torch.tensor(3.0)
    ours = moved((x, y), device)
    actual, expected = torch.compile(function)(*ours, scale), function(x, y, scale)
    assert_close(moved((actual, ours), "cpu"), (expected, (x, y)))
    assert actual[1].data_ptr() == actual[0].data_ptr()
    assert actual[2].data_ptr() == ours[0].data_ptr() + 3 * x.element_size()
    assert actual[4] is ours[0]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str, device: torch.device):
    """Where the last offset is the end, and where it is not; with gradients of the weight."""

    def function(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> list[Any]:
        results = []
        for last, end in ((False, 2), (True, 3)):
            bags = F.embedding_bag(
                indices, weight, offsets[:end], mode=mode, include_last_offset=last
            )
            results += [bags, *torch.autograd.grad(bags.square().sum(), weight)]
            # By an operator for inference.
            weights = weight.detach() * 2
            results.append(F.embedding_bag(indices, weights, offsets[:2], mode=mode))
        return results

    indices, offsets = torch.tensor([1, 4, 4, 9, 2, 0]), torch.tensor([0, 2, 6])
    check(function, torch.randn(10, 6, requires_grad=True), indices, offsets, device=device)


def test_complex_views_that_are_written_to(device: torch.device):
    """Eager kernels compute them."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.clone().t().copy_(x.t() * 2).mul_(1j)

    check(function, torch.randn(5, 4, dtype=torch.complex64), device=device)


@pytest.mark.by_turns(2)
def test_gradients_of_a_convolution_whose_input_has_channels_last(device: torch.device):
    """The gradient of its weight, in memory as the compiler expects it."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        normal = F.layer_norm(x.permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2)
        y = F.conv2d(normal, weight, stride=2).square().sum()
        return torch.autograd.grad(y, (x, weight))

    x = torch.randn(2, 8, 4, 4, requires_grad=True)
    weight = torch.randn(16, 8, 2, 2, requires_grad=True)
    check(function, x, weight, device=device, tolerance=1e-4)
