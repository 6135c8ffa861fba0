"""Sums at places that are read: a processor with planes of its own needs no atomic exchanges."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(2)

Function = Callable[..., torch.Tensor]


def adds(function: Function, *arguments: torch.Tensor, device: torch.device) -> set[str]:
    """How a function's kernels add, after its values were compared with eager CPU's."""
    code = checked_code(function, *arguments, device=device, tolerance=1e-4)
    kernels = code.split("program.kernel(")
    found = {"exchanges" for kernel in kernels if "ob_atomic_add_" in kernel}
    for kernel in kernels:
        if "ob_accumulate_" in kernel:
            found.add("one processor" if re.search(r"limit=1\b", kernel) else "planes")
    return found


def gradient(function: Function, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    result = function(x, *rest)
    weights = torch.arange(result.numel(), device=x.device).view(result.shape) % 7 - 3
    return torch.autograd.grad((result * weights).sum(), x)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: F.interpolate(x, scale_factor=2.5),
        lambda x, i: F.interpolate(x, size=(7, 39), mode="bilinear"),
        lambda x, i: x.gather(3, i),
        lambda x, i: x[:, :, i[0, 0, :, 0], i[0, 0, :, 1]],
        lambda x, i: x.gather(3, i) * x.gather(3, i.flip(3)),
    ],
    ids=["nearest", "bilinear", "gather", "indexed", "gathered twice"],
)
def test_planes_of_a_result(function: Function, device: torch.device):
    if target_of(device).processors > 64:
        pytest.skip("there are fewer planes than processors")
    x = torch.randn(8, 32, 16, 16, requires_grad=True)
    indices = torch.randint(0, 16, (8, 32, 16, 21))
    by = adds(lambda x, i: gradient(function, x, i), x, indices, device=device)
    assert by == {"exchanges" if target_of(device).group > 1 else "planes"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, y: x.index_add(0, i, y),
        lambda x, i, y: x.view(-1).index_add(0, i, y[:, 0]).view_as(x),
        lambda x, i, y: x.scatter_add(0, i[:, None].expand(-1, y.shape[1]), y),
        lambda x, i, y: torch.zeros(99, 8).to(x).index_put((i, i % 8), y[:, 0], True),
    ],
    ids=["rows", "elements", "columns", "both"],
)
def test_places_that_all_processors_reach(function: Function, device: torch.device):
    x, y = torch.randn(99, 40), torch.randn(5000, 40)
    indices = torch.randint(0, 99, (5000,))
    assert adds(function, x, indices, y, device=device) <= {"exchanges", "one processor"}


def test_wrong_places_stay_in_the_plane(device: torch.device):
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, i, torch.ones_like(i, dtype=x.dtype))

    x, indices = torch.zeros(64, 8, device=device), torch.full((64, 3), 8, device=device)
    wrong = torch.compile(function)(x, indices)
    with pytest.raises((IndexError, RuntimeError), match=r"index|out of"):
        wrong.cpu()
