"""Operators that move elements by rules, by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_as_on_cpu, gradcheck_on


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex128])
def test_moved_items(device, dtype):
    x = torch.randn(4, 5, 6).to(dtype)

    def work(x):
        return (
            x.roll((2, -3), (0, -1)),
            x.roll(7),
            x.flip(0, -1),
            x.transpose(0, 2).flip(1),
            x.rot90(1, (0, 2)),
            x.tril(1),
            x.transpose(1, 2).triu(-1),
            x.clone().tril_(),
            F.pad(x, (1, -1, 2, 3), value=1.0),
            F.pad(x, (2, 1), mode="circular"),
        )

    assert_as_on_cpu(device, work, x)
    assert x.to(device).transpose(0, 2).flip(1).stride() == x.transpose(0, 2).flip(1).stride()


def test_joined(device):
    x, y = torch.randn(4, 5), torch.randn(4, 3, dtype=torch.float64)

    def work(x, y):
        out = torch.empty(0, dtype=torch.float64, device=x.device)
        torch.cat([x, y], 1, out=out)
        into = torch.empty(4, 10, device=x.device)
        torch.cat([x, x + 1], 1, out=into)
        return torch.cat([x, y], 1), torch.cat([x[:0, 0], x]), torch.stack([x, x], 1), out, into

    assert_as_on_cpu(device, work, x, y)
    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    joined = torch.cat([images.to(device), images.to(device)], 1)
    assert joined.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([x.to(device), y.to(device)], 0)


def test_rearranged(device):
    x = torch.randn(2, 8, 4, 6)

    def work(x):
        return (
            F.channel_shuffle(x, 4),
            F.pixel_shuffle(x, 2),
            F.pixel_unshuffle(x, 2),
            F.glu(x, 1),
            x[0, 0].trace(),
            x.renorm(2, 1, 1.0),
            torch.linalg.cross(x[:, :3], x[:, 3:6], dim=1),
            torch.aminmax(x, dim=1),
            torch.tril_indices(4, 5, 1, device=x.device),
            torch.triu_indices(4, 5, -1, device=x.device),
        )

    assert_as_on_cpu(device, work, x)


def test_images_as_columns(device):
    images = torch.randn(2, 3, 7, 8)
    assert_as_on_cpu(device, lambda x: F.unfold(x, (2, 3), 2, 1, (2, 1)), images)
    columns = F.unfold(images, (2, 3), 2, 1, (2, 1))
    assert_as_on_cpu(device, lambda x: F.fold(x, (7, 8), (2, 3), 2, 1, (2, 1)), columns)
    with pytest.raises(RuntimeError):
        F.fold(columns.to(device), (9, 8), (2, 3), 2, 1, (2, 1))


@pytest.mark.slow
def test_gradients(device):
    x = torch.randn(2, 3, 4, 5)
    gradcheck_on(
        device,
        lambda x: (
            x.roll(2, 1),
            x.flip(0),
            x.tril(),
            F.unfold(x, 2, 2, 1, 2),
            x.unfold(3, 3, 2),
            x.unfold(2, 1, 3),
            F.glu(x[:, :2], 1),
            torch.cat([x, x[:1]], 0),
            torch.stack([x, x], -1),
            torch.linalg.cross(x, x.flip(2), dim=1),
            F.pixel_unshuffle(x[:, :, :, :4], 2),
        ),
        x,
    )
    gradcheck_on(device, lambda x: F.fold(x, (4, 5), 2, 1, 1, 1), torch.randn(1, 4, 30))


def test_sums_of_nothing(device):
    x = torch.empty(0, 3)

    def work(x):
        return x.sum(), x.sum(0), x.mean(), x.prod(0), (x > 0).all(0), (x > 0).any(), x.amax(1)

    assert_as_on_cpu(device, work, x)


def test_wrong_dtype_of_out(device):
    x = torch.randn(3, 3, device=device)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.tril(x, out=torch.empty(3, 3, dtype=torch.int32, device=device))
    into = torch.empty(3, 3, device=device).t()
    torch.tril(x, out=into)
    assert_close(into.cpu(), x.cpu().tril())


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
