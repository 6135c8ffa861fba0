"""Thousands of steps of random shapes: memory stays flat, and the results are those of the CPU."""

import gc
import random
import resource
import sys

import pytest
import torch

from torch_outboard.dispatch import fallback, placement

BLOCK = 50  # steps between two looks at the memory


def random_step(shapes, device):
    """A forward and backward pass on random sizes; the loss and a gradient, on the CPU."""
    rows, inner, columns = (shapes.randint(1, 40) for _ in range(3))
    torch.manual_seed(rows * 1600 + inner * 40 + columns)
    x, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    x, weight = x.to(device), weight.to(device).requires_grad_()
    hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight))
    # Without a large eps gradients of two similar columns are rounding errors, on CPU as well.
    normalized = torch.nn.functional.layer_norm(hidden, [columns], eps=0.1)
    loss = normalized.square().mean() + hidden.mean()
    loss.backward()
    return torch.cat([loss.detach().cpu().reshape(1), weight.grad.cpu().flatten()])


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def soak(device, where, steps):
    shapes, same = random.Random(1), random.Random(1)
    allocated, resident = [], []
    with placement.use(where), fallback.policy(host="allow", copied="allow"):
        for step in range(steps):
            found, expected = random_step(shapes, device), random_step(same, "cpu")
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
            if step % BLOCK == BLOCK - 1:
                gc.collect()
                allocated.append(torch.accelerator.memory_allocated())
                resident.append(resident_bytes())
    del found
    # All of a block is freed at its end, and the allocators have met all sizes by the middle.
    assert len(set(allocated)) == 1, allocated
    if sys.platform == "linux":
        middle = resident[len(resident) // 2]
        assert resident[-1] - middle < 16 << 20, resident


@pytest.mark.parametrize("where", ["host", "device"])
def test_some_steps(device, where):
    soak(device, where, 4 * BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["host", "device"])
def test_ten_thousand_steps(device, where):
    soak(device, where, 10_000)
