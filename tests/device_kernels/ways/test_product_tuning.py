"""Tiles of matrix products: what is measured, kept and used."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch

from tests.support import run_python
from torch_outboard import _C, ways
from torch_outboard.tuning import product_tuning, tuning_file


@pytest.fixture(autouse=True)
def blocks_of_before(device: torch.device) -> Iterator[None]:
    before = _C.product_blocks(device.index, torch.float32)
    yield
    _C.set_product_blocks(device.index, torch.float32, *before)


@pytest.mark.parametrize("blocks", [(1, 1, 1), (4, 3, 2), (8, 1, 16)])
@pytest.mark.parametrize("layout", ["nn", "tn"])
def test_products_are_right_by_any_tile(device, blocks, layout):
    _C.set_product_blocks(device.index, torch.float32, *blocks)
    assert _C.product_blocks(device.index, torch.float32) == blocks
    left, right = torch.randn(67, 80), torch.randn(80, 75)
    on_device = left.t().contiguous().to(device).t() if layout == "tn" else left.to(device)
    with ways.way("device"):
        result = on_device @ right.to(device)
    torch.testing.assert_close(result.cpu(), left @ right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("blocks", [(0, 1, 1), (5, -1, 1), (5, 2, 1000)])
def test_impossible_tiles_are_refused(device, blocks):
    with pytest.raises(ValueError, match="tiles of products have 1 to"):
        _C.set_product_blocks(device.index, torch.float32, *blocks)


def test_the_fastest_tile_wins(device, monkeypatch):
    monkeypatch.setattr(product_tuning, "DTYPES", (torch.float32,))
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


def test_larger_products_are_measured_where_small_ones_are_too_fast(device, monkeypatch):
    monkeypatch.setattr(product_tuning, "DTYPES", (torch.float32,))
    monkeypatch.setattr(product_tuning, "SIZES", (16, 32, 64))
    times = itertools.chain([0.001, 0.01], itertools.repeat(0.01))
    found = product_tuning.tune(device, clock=lambda run, synchronize: next(times))["float32"]
    assert found.size == 32


def test_real_times_are_taken(device, monkeypatch):
    monkeypatch.setattr(product_tuning, "DTYPES", (torch.float32,))
    monkeypatch.setattr(product_tuning, "TILES", ((5, 2),))
    monkeypatch.setattr(product_tuning, "PANELS", (8,))
    monkeypatch.setattr(product_tuning, "SIZES", (64,))
    found = product_tuning.tune(device)["float32"]
    assert found.rates[found.best] > 0


def test_what_was_found_is_kept_and_used(device, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    tuning = tuning_file.empty(device.index)
    tuning.products = {"float32": [4, 1, 2]}
    assert tuning_file.keep(device.index, tuning) is not None
    assert _C.product_blocks(device.index, torch.float32) == (4, 1, 2)
    # What is measured later leaves it as it is.
    tuning_file.keep(device.index, tuning_file.empty(device.index))
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import _C

        torch.ones(8, device=torch_outboard.device_name()) + 1
        print(_C.product_blocks(0, torch.float32))
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
    )
    assert printed.strip() == "(4, 1, 2)"


def test_tiles_that_cannot_be_are_a_warning(device, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    tuning = tuning_file.empty(device.index)
    before = _C.product_blocks(device.index, torch.float32)
    for products in ({"float32": [5, 2, 5000]}, {"float32": [1]}, {"no_dtype": [1, 1, 1]}):
        tuning.products = products
        tuning_file.save(device.index, tuning)
        with pytest.warns(UserWarning, match=r"cannot be used .*torch_outboard tune"):
            tuning_file.apply_all()
        assert _C.product_blocks(device.index, torch.float32) == before
