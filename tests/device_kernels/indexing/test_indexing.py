"""Operators with index tensors by device kernels, against CPU."""

import sys

import pytest
import torch
from torch.testing import assert_close

from tests.device_kernels.on_device import assert_as_on_cpu, gradcheck_on
from torch_outboard import fallback


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex128]
)
def test_gather_of_any_layout(device, dtype):
    values = (torch.randn(4, 5, 6) * 5).to(dtype)
    index = torch.randint(0, 5, (4, 3, 2))
    with fallback.report() as report:
        result = torch.gather(values.to(device), 1, index.to(device))
        turned = torch.gather(
            values.to(device).transpose(0, 2), -2, index.to(device).transpose(0, 2)
        )
    assert_close(result.cpu(), torch.gather(values, 1, index))
    assert_close(turned.cpu(), torch.gather(values.transpose(0, 2), -2, index.transpose(0, 2)))
    assert {row.way for row in report.rows if row.op == "aten::gather"} == {"device"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.complex64])
def test_scatter_and_select(device, dtype):
    x = torch.randn(6, 5).to(dtype)
    source = torch.randn(3, 5).to(dtype)
    index = torch.tensor([4, 0, 4])

    def work(x, source, index):
        wide = index.reshape(3, 1).expand(3, 5)
        into = x.clone()
        into.t().scatter_(1, wide.t(), source.t())
        return (
            x.scatter(0, wide, source),
            x.scatter(0, wide, 2.5),
            into,
            x.index_select(0, index),
            x.t().index_select(1, index),
            x.index_add(0, index, source, alpha=2),
            x.index_copy(0, index[:2], source[:2]),
            x.index_fill(1, index[:1] - 5, 3.0),
        )

    assert_as_on_cpu(device, work, x, source, index)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(device, reduce, include_self):
    x = torch.randint(-9, 9, (4, 7))
    source = torch.randint(-9, 9, (3, 6))
    source_of_floats = source.float()
    source_of_floats[0, 0] = float("nan")
    index = torch.randint(0, 4, (3, 6))

    def work(x, source, index):
        return x.scatter_reduce(0, index, source, reduce, include_self=include_self)

    assert_as_on_cpu(device, work, x.float(), source_of_floats, index)
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


def test_flat_places_and_masks(device):
    x = torch.randn(5, 7)
    index = torch.tensor([[3, -1], [0, 34]])

    def work(x, index):
        mask = x > 0
        return (
            x.take(index),
            x.clone().put_(index, torch.ones_like(index, dtype=x.dtype)),
            x.t().clone().t().put_(index, torch.ones_like(index, dtype=x.dtype), accumulate=True),
            mask.nonzero(),
            torch.zeros_like(mask).nonzero(),
            torch.nonzero_static(mask, size=40),
            x.masked_select(mask),
            x.masked_scatter(mask, x.flip(0)),
            x.repeat_interleave(torch.tensor([1, 0, 2, 3, 1], device=x.device), 0),
        )

    assert_as_on_cpu(device, work, x, index)


def test_nonzero_of_many_blocks(device):
    x = torch.rand(3, 10007) > 0.7
    assert_as_on_cpu(device, torch.nonzero, x)
    assert x.to(device).nonzero().stride() == x.nonzero().stride()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, i: x.index_select(0, i), IndexError),
        (lambda x, i: x[i], IndexError),
        (lambda x, i: x[i, i], IndexError),
        (lambda x, i: x.gather(0, i.reshape(2, 1)), RuntimeError),
        (lambda x, i: x.scatter(0, i.reshape(2, 1), 1.0), RuntimeError),
        (lambda x, i: x.scatter_add(0, i.reshape(2, 1), x), RuntimeError),
        (lambda x, i: x[x[:2] > 0], IndexError),
    ],
)
@pytest.mark.parametrize("index", [[0, 4], [0, -5]])
def test_index_out_of_range(device, call, error, index):
    x = torch.arange(16.0).reshape(4, 4).to(device)
    with pytest.raises(error):  # at the call where the host is asked, else at the next wait
        call(x, torch.tensor(index, device=device)).cpu()
    # The next call does not inherit the error.
    assert x.index_select(0, torch.tensor([1], device=device)).cpu().tolist() == [[4, 5, 6, 7]]


@pytest.mark.slow
def test_gradients(device):
    x, y = torch.randn(4, 3), torch.randn(2, 3)
    i = torch.tensor([1, 3], device=device)
    wide = i.reshape(2, 1).expand(2, 3)
    gradcheck_on(device, lambda x: (x.gather(0, wide), x[i], x.index_select(0, i), x.take(i)), x)
    gradcheck_on(
        device,
        lambda x, y: (
            x.scatter(0, wide, y),
            x.scatter_add(0, wide, y),
            x.index_add(0, i, y),
            x.index_copy(0, i, y),
            x.index_put((i,), y),
            x.scatter_reduce(0, wide, y, "mean", include_self=False),
        ),
        x,
        y,
    )
