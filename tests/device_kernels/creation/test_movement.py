"""Operators that move elements by rules, by device kernels, against CPU."""

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu


def test_joined(device):
    """Of two dtypes, and into outputs that are resized or have gaps."""
    x, y = torch.randn(4, 5), torch.randn(4, 3, dtype=torch.float64)

    def work(x, y):
        out = torch.empty(0, dtype=torch.float64, device=x.device)
        torch.cat([x, y], 1, out=out)
        into = torch.zeros(8, 10, device=x.device)
        torch.cat([x, x + 1], 1, out=into[::2])
        return torch.cat([x, y], 1), torch.cat([x[:0, 0], x]), torch.stack([x.t(), x.t()]), into

    assert_as_on_cpu(device, work, x, y)


def test_powers_of_negative_bases(device):
    def work(x):
        complex64 = {"dtype": torch.complex64, "device": x.device}
        return (
            torch.logspace(-3, 4.3, 9, base=-2, **complex64),
            torch.logspace(-3, 4.3, 9, base=3, **complex64),
        )

    assert_as_on_cpu(device, work, torch.empty(0))


def test_copies_of_parts_into_results(device):
    x = torch.randn(4, 5, 6)

    def work(x):
        larger = x.new_empty(3, 9)
        torch.narrow_copy(x.transpose(0, 2), 0, -2, 1, out=larger)  # resized without a warning
        return larger, torch.narrow_copy(x, 2, 6, 0)

    assert_as_on_cpu(device, work, x)
    into = torch.empty(4, 2, 12, device=device)[..., ::2]  # CPU is wrong here
    torch.narrow_copy(x.to(device), 1, 2, 2, out=into)
    assert torch.equal(into.cpu(), x.narrow(1, 2, 2))
    for start, length in ((0, 20), (5, 0), (-5, 1)):
        with pytest.raises((RuntimeError, IndexError)):
            torch.narrow_copy(x.to(device), 0, start, length, out=torch.empty(0, device=device))
