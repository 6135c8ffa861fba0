"""Small kernels that run one after the other in one launch."""

import re

import pytest
import torch

from tests.inductor.support import check, check_sizes, checked_code, compare, launches, moved
from torch_outboard import _C

pytestmark = pytest.mark.by_turns(2)


def chain(x: torch.Tensor, steps: int) -> torch.Tensor:
    """As many kernels as steps: sums of rows and columns are not fused with each other."""
    for step in range(steps):
        x = (x - x.sum(step % 2, keepdim=True) * 0.1).sin()
    return x


def expected_launches(one: int, otherwise: int) -> int:
    """A GPU has items that read what others write."""
    return one if _C.device_properties(0).kind == "cpu" else otherwise


def test_small_kernels_are_one_launch(device: torch.device):
    def function(x, w):
        return chain(chain(x, 4) @ w, 3)

    code = checked_code(function, torch.randn(16, 16), torch.randn(16, 16) / 4, device=device)
    # Calls that are no kernels of the graph separate them.
    assert launches(code) == expected_launches(2, launches(code))
    if launches(code) == 2:
        assert "never_launched" in code


def test_large_kernels_stay_apart(device: torch.device):
    def function(x, y):
        return chain(x, 3), chain(y, 4)

    given = torch.randn(8, 8), torch.randn(800, 900) / 100
    assert launches(checked_code(function, *given, device=device, tolerance=1e-4)) > 4


def test_memory_that_is_freed_and_taken_again_in_between(device: torch.device):
    """Results keep names whose memory has gone on, and names that were views of it."""

    def function(x):
        first = chain(x, 3)
        second = chain(first.t(), 4)
        third = chain(second[::2], 3)
        x.copy_(chain(x, 2))
        return second, third.sum(0), first.view(-1)[3:9]

    x = torch.randn(16, 16)
    on_device, compiled = x.to(device), torch.compile(function)
    for _ in range(3):
        torch.testing.assert_close(moved(compiled(on_device), "cpu"), function(x))
        torch.testing.assert_close(on_device.cpu(), x)


@pytest.mark.usefixtures("little_room")
def test_no_more_parameters_than_a_device_takes(device: torch.device):
    def function(*tensors):
        return [chain(x, 2) for x in tensors]

    code = checked_code(function, *(torch.randn(6, 7) for _ in range(9)), device=device)
    for head in re.findall(r"__kernel void \w+\((.*)\) \{", code):
        assert head.count("OB_POINTER") <= 9


def test_a_wrong_index_is_reported(device: torch.device):
    def function(x, i):
        return chain(chain(x, 2)[i], 2)

    compiled, x = torch.compile(function), torch.randn(8, 8)
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        compiled(x.to(device), torch.tensor([1, 99], device=device)).cpu()
    compare(function, compiled, (x, torch.tensor([1, 5])), device, 1e-5)


def test_a_kernel_alone_and_merged(device: torch.device):
    """The same source is launched by itself, too, where something else stands around it."""

    def function(x, w):
        y = x.sum(0, keepdim=True) @ w
        z = y.expand(16, 16).contiguous()
        return chain(z, 3), z.sum(0, keepdim=True)

    check(function, torch.randn(16, 16), torch.randn(16, 16), device=device)


def test_dynamic_shapes_and_branches(device: torch.device):
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: chain(x, 3), lambda x: chain(-x, 2), (x,))

    for x in (torch.rand(9, 9), -torch.rand(9, 9)):
        check(branch, x, device=device)

    def function(x):
        return chain(x, 5)

    check_sizes(function, *((torch.randn(size, 7),) for size in (5, 1, 12)), device=device)
