"""Embeddings by device kernels, against CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.device_kernels.on_device import compare, with_gradients


@pytest.fixture(autouse=True)
def kernels(device):
    """Until a kernel has run, `embedding` is composed of other operators."""
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
