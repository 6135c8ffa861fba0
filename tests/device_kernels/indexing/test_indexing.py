"""Operators with index tensors by device kernels, against CPU."""

import sys

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.conftest import placements_of
from tests.device_kernels.on_device import assert_as_on_cpu, compare, with_gradients
from torch_outboard import fallback


@pytest.mark.parametrize("include_self", [True, False])
def test_nan_among_what_is_scattered(device, include_self):
    x, source = torch.randint(-9, 9, (2, 4, 7)).float()
    source[0, 0] = float("nan")
    index = torch.randint(0, 4, (4, 7))
    index[1, 0] = index[0, 0]  # a number follows the NaN

    def work(x, source, index):
        return [
            x.scatter_reduce(0, index, source, reduce, include_self=include_self)
            for reduce in ("amax", "amin")
        ]

    assert_as_on_cpu(device, work, x, source, index)


# Lines that a group of a GPU takes, lines that groups share, and indices that come often.
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


def test_meta_kernels_run_no_python(device):
    x, index = torch.randn(8, 8, device=device), torch.zeros(8, 8, dtype=torch.int64, device=device)

    def work():
        torch.gather(x, 0, index)
        torch.cat([x, x])
        torch.softmax(x, 1)
        torch.linalg.vector_norm(x)

    work()  # compiles, which a driver in Python takes part in
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    assert called == [work.__code__]


def test_nonzero_of_many_blocks(device):
    x = torch.rand(3, 10007) > 0.7
    assert_as_on_cpu(device, torch.nonzero, x)
    assert x.to(device).nonzero().stride() == x.nonzero().stride()


# ---- embeddings


@pytest.fixture(autouse=True)
def kernels(device):
    """Until a kernel has run, `embedding` decomposes into other operators."""
    torch.ones(1, device=device).add_(1)


# Short rows leave several to a group of a GPU; the last ones are longer than a group.
@pytest.mark.parametrize(("tokens", "width", "words"), [(700, 1, 20), (600, 33, 300), (40, 270, 4)])
def test_many_tokens(device, tokens, width, words):
    indices = torch.randint(0, words, (tokens,))
    gradient = torch.randint(-9, 9, (tokens, width)).float()
    backward = torch.ops.aten.embedding_dense_backward
    for padding, by_frequency in ((-1, False), (2, False), (-1, True)):
        compare(device, backward, gradient, indices, words, padding, by_frequency)


def test_wide_rows_of_half(device):
    run = with_gradients(lambda w, i: F.embedding(i, w))
    weight = torch.randn(70, 512, dtype=torch.float16).requires_grad_()
    compare(device, run, weight, torch.randperm(70)[:40])


def test_empty_bags_and_those_of_padding(device):
    indices = torch.randint(0, 11, (20,))
    indices[3:9] = 2
    offsets = torch.tensor([0, 3, 3, 9, 15])
    for mode in ("sum", "mean", "max"):
        run = with_gradients(
            lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode, padding_idx=2)
        )
        ran = compare(device, run, torch.randn(11, 13).requires_grad_(), indices, offsets)
        assert {"aten::_embedding_bag", "aten::_embedding_bag_backward"} <= ran


def test_rows_that_are_renormalized_more_than_once(device):
    indices = torch.tensor([1, 4, 1, 7, 4])
    for order in (2.0, torch.inf):
        run = lambda w, i, order=order: torch.embedding_renorm_(w, i, 1.5, order)  # noqa: E731
        assert "aten::embedding_renorm_" in compare(device, run, torch.randn(9, 5) * 2, indices)


def test_indices_out_of_range_touch_nothing(device):
    weight = torch.ones(4, 6, device=device)
    result = F.embedding(torch.tensor([0, 9, -3], device=device), weight)
    with pytest.raises(IndexError):
        torch.accelerator.synchronize()
    assert result.sum(1).tolist() == [6, 0, 0]


@pytest.mark.slow
def test_elements_beyond_32_bits(device):
    """A tensor of more than 2^31 elements, which takes 2 GiB."""
    count = 2**31 + 77
    try:
        large = torch.zeros(count, dtype=torch.int8, device=device)
    except torch.OutOfMemoryError as error:
        pytest.skip(f"the device has no 2 GiB left: {error}")
    with fallback.report() as report:
        large.add_(1)
        large[count - 3 :] = 5
        assert large.sum().item() == count + 4 * 3
        assert large.amax().item() == 5
        every_other = large[1::2]
        doubled = every_other + every_other
        assert (doubled[0].item(), doubled[-1].item()) == (2, 10)
        indices = torch.tensor([count - 1, 0, count - 2], device=device)
        assert torch.gather(large, 0, indices).tolist() == [5, 1, 5]
    placements = placements_of(report)
    for name in ("add_.Tensor", "sum", "amax", "add.Tensor", "gather"):
        assert placements[f"aten::{name}"] == "device"
