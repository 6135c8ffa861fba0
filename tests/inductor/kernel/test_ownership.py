"""Sums at indices from memory: a processor with separate planes needs no atomic exchanges."""

import re
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(2)

Function = Callable[..., Sequence[torch.Tensor]]


def adds(function: Function, *arguments: torch.Tensor, device: torch.device) -> list[str]:
    """How each kernel of a function adds, after its values were compared with eager CPU's."""
    code = checked_code(function, *arguments, device=device, tolerance=1e-4)
    found = []
    for kernel in code.split("program.kernel("):
        if "ob_atomic_add_" in kernel:
            found.append("exchanges")
        elif "ob_accumulate_" in kernel:
            found.append("one processor" if re.search(r"limit=1\b", kernel) else "planes")
    return found


@pytest.mark.by_turns(4)
def test_planes_of_a_result(device: torch.device):
    """Of gradients of what was interpolated, indexed, and gathered twice."""
    if target_of(device).processors > 64:
        pytest.skip("there are fewer planes than processors")

    def function(i: torch.Tensor, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c = leaves
        loss = torch.zeros((), device=i.device)
        for result in (
            F.interpolate(a, scale_factor=2.5),
            b[:, :, i[0, 0, :, 0], i[0, 0, :, 1]],
            c.gather(3, i) * c.gather(3, i.flip(3)),
        ):
            weights = torch.arange(result.numel(), device=i.device).view(result.shape) % 7 - 3
            loss = loss + (result * weights).sum()
        return torch.autograd.grad(loss, leaves)

    leaves = [torch.randn(8, 32, 16, 16, requires_grad=True) for _ in range(3)]
    by = adds(function, torch.randint(0, 16, (8, 32, 16, 21)), *leaves, device=device)
    assert len(by) >= len(leaves)
    assert set(by) == {"exchanges" if target_of(device).group > 1 else "planes"}


def test_indices_that_all_processors_reach(device: torch.device):
    """Rows, elements, columns, and both."""

    def function(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            x.index_add(0, i, y),
            x.view(-1).index_add(0, i, y[:, 0]),
            x.scatter_add(0, i[:, None].expand(-1, y.shape[1]), y),
            torch.zeros(99, 8).to(x).index_put((i, i % 8), y[:, 0], True),
        ]

    x, y, indices = torch.randn(99, 40), torch.randn(5000, 40), torch.randint(0, 99, (5000,))
    assert "planes" not in adds(function, x, indices, y, device=device)


def test_wrong_indices_stay_in_the_plane(device: torch.device):
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, i, torch.ones_like(i, dtype=x.dtype))

    x, indices = torch.zeros(64, 8, device=device), torch.full((64, 3), 8, device=device)
    wrong = torch.compile(function)(x, indices)
    with pytest.raises((IndexError, RuntimeError), match=r"index|out of"):
        wrong.cpu()
