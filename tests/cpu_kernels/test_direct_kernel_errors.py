"""Errors of the kernels of csrc/cpu_kernels, which are CPU's, and indices out of range."""

from collections.abc import Callable

import pytest
import torch

from tests.device_kernels.on_device import assert_raises_as_on_cpu
from tests.index_probes import PROBES, WRONG, disagreement
from torch_outboard import fallback

ERRORS: dict[str, Callable[[str | torch.device], object]] = {
    "broadcast": lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
    "in-place broadcast": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "in-place dtype": lambda d: torch.ones(3, dtype=torch.int64, device=d).mul_(0.5),
    "internal overlap": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "partial overlap": lambda d: (lambda t: torch.exp(t[:-1], out=t[1:]))(torch.ones(4, device=d)),
    "in-place overlap": lambda d: (lambda t: t[1:].add_(t[:-1]))(torch.ones(4, device=d)),
    "out dtype": lambda d: torch.exp(
        torch.ones(3, device=d), out=torch.empty(3, dtype=torch.int64, device=d)
    ),
    "mm out dtype": lambda d: torch.mm(
        torch.ones(2, 2, device=d),
        torch.ones(2, 2, device=d),
        out=torch.empty(2, 2, dtype=torch.float64, device=d),
    ),
    "fill out of range": lambda d: torch.ones(2, dtype=torch.uint8, device=d).fill_(300),
    "nll target": lambda d: torch.nn.functional.nll_loss(
        torch.ones(2, 3, device=d), torch.tensor([0, 5], device=d)
    ),
    "padding whose double is no integer": lambda d: torch.ops.aten.max_pool2d_with_indices(
        torch.ones(1, 8, 8, device=d), [3, 3], [2, 2], [2**62, 0]
    ),
    "addr_ into another size": lambda d: torch.ones(1, device=d).addr_(
        torch.ones(5, device=d), torch.ones(10, device=d)
    ),
    "mask dtype": lambda d: torch.ones(2, device=d).masked_fill_(torch.ones(2, device=d), 1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_cpu(name: str, device: torch.device) -> None:
    assert_raises_as_on_cpu(device, lambda x: ERRORS[name](x.device), torch.empty(0))


def test_wrong_indices_are_raised(device: torch.device) -> None:
    wrong = []
    with fallback.policy(copied="allow"):
        for probe in PROBES:
            if probe.follows:
                continue  # PyTorch's kernel, which follows them
            for index in probe.wrong(WRONG[::6]):
                if (found := disagreement(probe, index, device)) is not None:
                    wrong.append(found)
    assert not wrong, f"{len(wrong)}: " + "; ".join(wrong[:20])
