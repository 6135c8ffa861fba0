"""Embeddings by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.on_device import compare, with_gradients


@pytest.fixture(autouse=True)
def kernels(device):
    """Until a kernel has run, `embedding` is composed of other operators."""
    torch.ones(1, device=device).add_(1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding(device, dtype, by_frequency):
    indices = torch.randint(0, 11, (3, 9)).to(dtype)
    run = with_gradients(
        lambda w, i: F.embedding(i, w, padding_idx=4, scale_grad_by_freq=by_frequency)
    )
    ran = compare(device, run, torch.randn(11, 13).requires_grad_(), indices)
    assert {"aten::embedding", "aten::embedding_dense_backward"} <= ran


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


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(device, mode):
    indices = torch.randint(0, 11, (20,))
    # One bag is empty.
    offsets = torch.tensor([0, 3, 3, 9, 15])
    run = with_gradients(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=2))
    ran = compare(device, run, torch.randn(11, 13).requires_grad_(), indices, offsets)
    assert {"aten::_embedding_bag", "aten::_embedding_bag_backward"} <= ran


def test_bags_with_weights(device):
    indices, offsets = torch.randint(0, 11, (20,)), torch.tensor([0, 3, 9, 20])
    run = with_gradients(
        lambda w, s, i, o: F.embedding_bag(
            i, w, o, per_sample_weights=s, mode="sum", include_last_offset=True
        )
    )
    weight, scale = torch.randn(11, 13).requires_grad_(), torch.rand(20).requires_grad_()
    ran = compare(device, run, weight, scale, indices, offsets)
    assert "aten::_embedding_bag_per_sample_weights_backward" in ran


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, torch.inf])
def test_renormalization_in_place(device, order):
    indices = torch.tensor([1, 4, 1, 7, 4])
    run = lambda w, i: torch.embedding_renorm_(w, i, 1.5, order)  # noqa: E731
    ran = compare(device, run, torch.randn(9, 5) * 2, indices)
    assert "aten::embedding_renorm_" in ran


def test_indices_out_of_range_touch_nothing(device):
    weight = torch.ones(4, 6, device=device)
    result = F.embedding(torch.tensor([0, 9, -3], device=device), weight)
    with pytest.raises(IndexError):
        torch.accelerator.synchronize()
    assert result.sum(1).tolist() == [6, 0, 0]


@pytest.mark.slow  # test_gradcheck.py asks one entry of every family
def test_gradcheck(device):
    weight = torch.randn(5, 3, dtype=torch.float64, device=device, requires_grad=True)
    scale = torch.rand(4, dtype=torch.float64, device=device, requires_grad=True)
    indices = torch.tensor([1, 4, 1, 0], device=device)
    offsets = torch.tensor([0, 3], device=device)
    assert torch.autograd.gradcheck(lambda w: F.embedding(indices, w), weight)
    assert torch.autograd.gradcheck(
        lambda w, s: F.embedding_bag(indices, w, offsets, mode="sum", per_sample_weights=s),
        (weight, scale),
    )
    for mode in ("mean", "max"):
        assert torch.autograd.gradcheck(
            lambda w, m=mode: F.embedding_bag(indices, w, offsets, mode=m), weight
        )
