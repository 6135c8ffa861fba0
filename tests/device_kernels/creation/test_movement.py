"""Operators that make or move elements by rules, by device kernels, against CPU."""

import torch

from tests.device_kernels.on_device import assert_as_on_cpu


def test_powers_of_negative_bases(device):
    def work(x):
        return torch.logspace(-3, 4.3, 9, base=-2, dtype=torch.complex64, device=x.device)

    assert_as_on_cpu(device, work, torch.empty(0))


def test_copies_of_parts_into_strided_results(device):
    x = torch.randn(4, 5, 6)
    into = torch.empty(4, 2, 12, device=device)[..., ::2]  # CPU is wrong here
    torch.narrow_copy(x.to(device), 1, 2, 2, out=into)
    assert torch.equal(into.cpu(), x.narrow(1, 2, 2))
