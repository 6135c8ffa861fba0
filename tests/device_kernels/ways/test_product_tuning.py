"""Tiles of matrix products: what is measured and used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torch_outboard import _C
from torch_outboard.tuning import product_tuning, tuning_file


@pytest.fixture(autouse=True)
def blocks_of_before(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(product_tuning, "DTYPES", (torch.float32,))
    before = _C.product_blocks(device.index, torch.float32)
    yield
    _C.set_product_blocks(device.index, torch.float32, *before)


@pytest.mark.parametrize("blocks", [(4, 3, 2), (1, 1, 1), (8, 1, 16)])
def test_products_are_right_by_any_tile(device, blocks):
    _C.set_product_blocks(device.index, torch.float32, *blocks)
    assert _C.product_blocks(device.index, torch.float32) == blocks
    left, right = torch.randn(67, 80), torch.randn(80, 75)
    transposed = left.t().contiguous().to(device).t()
    for on_device in (left.to(device), transposed):
        result = on_device @ right.to(device)
        torch.testing.assert_close(result.cpu(), left @ right, rtol=1e-4, atol=1e-4)


def test_the_fastest_tile_wins(device):
    before = _C.product_blocks(device.index, torch.float32)
    said = []

    def clock(run, synchronize):
        blocks = _C.product_blocks(device.index, torch.float32)
        return {(4, 3): 1.0, (8, 2): 0.5}.get(blocks[:2], 2.0) * (0.5 if blocks[2] == 4 else 1.0)

    found = product_tuning.tune(device, said.append, clock)["float32"]
    assert found.best == (8, 2, 4)
    assert found.size == product_tuning.SIZES[0]
    assert found.rates[8, 2, 4] == max(found.rates.values())
    assert len(said) <= product_tuning.steps()
    assert {blocks[:2] for blocks in found.rates} >= set(product_tuning.TILES)
    assert _C.product_blocks(device.index, torch.float32) == before


def test_real_times_are_taken(device, monkeypatch):
    monkeypatch.setattr(product_tuning, "TILES", ((5, 2),))
    monkeypatch.setattr(product_tuning, "PANELS", (8,))
    monkeypatch.setattr(product_tuning, "SIZES", (16, 64))
    found = product_tuning.tune(device)["float32"]
    assert found.rates[found.best] > 0
    assert found.size == 64  # products of 16 are too fast


def test_impossible_tiles_are_refused_and_a_warning_in_a_file(device, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    for blocks in ((0, 1, 1), (5, -1, 1), (5, 2, 1000)):
        with pytest.raises(ValueError, match="tiles of products have 1 to"):
            _C.set_product_blocks(device.index, torch.float32, *blocks)
    tuning = tuning_file.empty(device.index)
    before = _C.product_blocks(device.index, torch.float32)
    for products in ({"float32": [5, 2, 5000]}, {"float32": [1]}, {"no_dtype": [1, 1, 1]}):
        tuning.products = products
        tuning_file.save(device.index, tuning)
        with pytest.warns(UserWarning, match=r"cannot be used .*torch_outboard tune"):
            tuning_file.apply_all()
        assert _C.product_blocks(device.index, torch.float32) == before
