"""`gradcheck` in float64 of every differentiable family, and of every entry with a gradient."""

from __future__ import annotations

import pytest

from tests.opinfo.gradcheck import check_entry, differentiable_families, entries

pytestmark = pytest.mark.by_turns(2)

# An entry by which kernels of the family compute a result or a gradient.
OF_FAMILY = {
    "attention": "nn.functional.scaled_dot_product_attention",
    "convolution": "nn.functional.conv2d",
    "distance": "cdist",
    "embedding": "nn.functional.embedding",
    "embedding_backward": "nn.functional.embedding",
    "fourier": "fft.rfft",
    "indexing": "gather",
    "interpolation": "nn.functional.interpolate.bilinear",
    "loss": "nn.functional.nll_loss",
    "matrix_product": "addmm",
    "movement": "cat",
    "normalization": "nn.functional.layer_norm",
    "pointwise": "mul",
    "pooling": "nn.functional.max_pool2d",
    "reduction": "sum",
    "scan": "cumsum",
    "selection": "topk",
    "softmax": "softmax",
    "sorting": "sort",
}


def test_every_family(device):
    assert set(OF_FAMILY) == differentiable_families()
    known = entries()
    for family, entry in OF_FAMILY.items():
        families, _ = check_entry(known[entry], device, count=2)
        assert family in families, family


@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_entry(device, entry):
    _, checked = check_entry(entries()[entry], device, count=2)
    if not checked:
        pytest.skip("gradcheck fails on CPU as well, or there is nothing to differentiate")
