"""Operators with index tensors by device kernels, against CPU."""

import sys

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu


@pytest.mark.parametrize("include_self", [True, False])
def test_nan_among_what_is_scattered(device, include_self):
    x, source = torch.randint(-9, 9, (2, 4, 7)).float()
    source[0, 0] = float("nan")
    index = torch.randint(0, 4, (4, 7))
    index[1, 0] = index[0, 0]  # a number follows the NaN

    def work(x, source, index):
        return [
            x.scatter_reduce(0, index, source, reduce, include_self=include_self)
            for reduce in ("amax", "amin", "sum", "mean")
        ]

    assert_as_on_cpu(device, work, x, source, index)


# Lines that a group of a GPU takes, lines that groups share, and places that come often.
@pytest.mark.parametrize(("lines", "n", "size"), [(2, 300, 7), (1, 1500, 700), (3, 70, 5000)])
def test_long_lines(device, lines, n, size):
    x = torch.randint(-9, 9, (lines, size)).float()
    index = torch.randint(0, size, (lines, n))
    source = torch.randint(-9, 9, (lines, n)).float()

    def work(x, index, source):
        across = x.t().contiguous()
        return (
            x.scatter_add(1, index, source),
            x.scatter(1, index, source),
            x.long().scatter_reduce(1, index, source.long(), "mean"),
            x.scatter_reduce(1, index, source, "amax", include_self=False),
            across.scatter_add(0, index.t(), source.t()),
            x.gather(1, index),
        )

    assert_as_on_cpu(device, work, x, index, source)


@pytest.mark.parametrize(("rows", "n", "width"), [(300, 700, 33), (9, 600, 1), (5, 3, 257)])
def test_many_slices(device, rows, n, width):
    x = torch.randint(-9, 9, (rows, width)).float()
    index = torch.randint(-rows, rows, (n,))
    source = torch.randint(-9, 9, (n, width)).float()

    def work(x, index, source):
        return (
            x.index_add(0, index % x.size(0), source),
            x.index_copy(0, index % x.size(0), source),
            x.index_put((index,), source, accumulate=True),
            x.index_put((index,), source[0, 0], accumulate=True),
            x[None].expand(2, *x.shape).index_add(1, index % x.size(0), source.expand(2, n, width)),
        )

    assert_as_on_cpu(device, work, x, index, source)


def test_wide_rows(device):
    x, source = torch.randn(7, 5, 130), torch.randn(7, 6, 130)
    index = torch.randint(0, 5, (7, 6, 130))

    def work(x, index, source):
        turned = x.transpose(0, 2)
        return (
            torch.gather(x, 1, index),
            torch.gather(x, 2, index[:, :5]),
            torch.gather(turned, 1, index.transpose(0, 2)),
            x.scatter(1, index, source),
            x.scatter_reduce(1, index, source, "mean"),
            x.scatter_add(1, index, source),
        )

    assert_as_on_cpu(device, work, x, index, source)


def test_meta_kernels_run_no_python(device):
    x, index = torch.randn(8, 8, device=device), torch.zeros(8, 8, dtype=torch.int64, device=device)
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code) if event == "call" else None)
    try:
        torch.gather(x, 0, index)
        torch.tril(x)
        torch.cat([x, x])
        torch.softmax(x, 1)
        torch.scatter(x, 0, index, 1.0)
        torch.linalg.vector_norm(x)
    finally:
        sys.setprofile(None)
    assert not called


def test_nonzero_of_many_blocks(device):
    x = torch.rand(3, 10007) > 0.7
    assert_as_on_cpu(device, torch.nonzero, x)
    assert x.to(device).nonzero().stride() == x.nonzero().stride()
