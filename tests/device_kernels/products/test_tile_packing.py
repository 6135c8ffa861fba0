"""Operands of products in tiles: read in place by processors, or packed before, against CPU."""

import itertools

import pytest
import torch

from tests.device_kernels.launches import is_processor, launched
from tests.device_kernels.products.test_matrix_product import check, values
from torch_outboard.scoreboard.comparison.transplant import Transplant

PACKING = {"pack_left", "pack_right"}
# Tiles have 12 rows and 32 columns, or 5 and 16. Full ones, one line more or less, and a few.
SIZES = [(60, 40, 96), (61, 40, 97), (59, 33, 127), (13, 90, 33), (12, 1000, 32), (120, 4, 160)]


def packed(device: torch.device, left: torch.Tensor, right: torch.Tensor) -> set[str]:
    """The operands of a product that were packed; the result has to be right."""
    size = (*left.shape[:-1], right.shape[-1])
    added = values(*size, dtype=left.dtype)
    function = torch.baddbmm if len(size) == 3 else torch.addmm
    a, b, out = Transplant(device)((left, right, added))
    launched(device)
    result = function(out, a, b)
    kernels = launched(device)
    assert ("tiles" if is_processor(device) else "group_tiles") in kernels
    low = left.dtype in (torch.float16, torch.bfloat16)
    near = {"rtol": 2e-2, "atol": 0.5} if low else {"rtol": 1e-5, "atol": 1e-3}
    torch.testing.assert_close(result.cpu(), function(added, left, right), **near)
    # Each result is read once and written once, also where tiles overlap.
    getattr(out, function.__name__ + "_")(a, b)
    torch.testing.assert_close(out, result, rtol=0, atol=0)
    return kernels & PACKING


def on_processor(device: torch.device, expected: set[str]) -> set[str]:
    """Packed operands; work-groups of a GPU read all operands in place."""
    return expected if is_processor(device) else set()


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("batch", [(), (3,)], ids=["matrices", "batches"])
@pytest.mark.parametrize("sizes", SIZES)
def test_tails(device, sizes, batch):
    m, k, n = sizes
    for transposed in itertools.product((False, True), repeat=2):
        left = values(*batch, k, m).mT if transposed[0] else values(*batch, m, k)
        right = values(*batch, n, k).mT if transposed[1] else values(*batch, k, n)
        expected = {"pack_right"} if transposed[1] else set()
        assert packed(device, left, right) == on_processor(device, expected)


@pytest.mark.parametrize("step", [1, 3])
def test_what_lies_around_does_not_count(device, step):
    """Operands inside of storages of NaN, and at their ends."""
    left, right = (torch.full((300, 300), torch.nan) for _ in range(2))
    left, right = left[200:261, 300 - 45 * step :: step], right[255:, 203:]
    for operand in (left, right):
        operand.copy_(torch.randn(operand.shape))
    for operands in ((left, right), (right.T, left.T)):
        check(torch.mm, *operands, device=device, rtol=1e-5, atol=1e-3)


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.int64, torch.bfloat16])
def test_dtypes(device, dtype):
    """Elements that are not of the type of sums are converted once, not at each read."""
    expected = PACKING if dtype == torch.bfloat16 else on_processor(device, set())
    assert packed(device, values(61, 40, dtype=dtype), values(40, 97, dtype=dtype)) == expected


# Rows, depth, columns; strides of both; what processors pack.
CHOICES = {
    "short of a tile": ((4, 600, 15), "nn", PACKING),
    "few rows of a long operand": ((4, 700, 600), "nn", {"pack_left"}),
    "rows of the left operand": ((130, 300, 900), "nn", {"pack_right"}),
    "rows of the left operand, for many columns": ((130, 300, 1100), "nn", PACKING),
    "columns of the left operand, read once": ((130, 1100, 15), "tn", {"pack_right"}),
    "columns of the left operand, read often": ((130, 300, 900), "tn", PACKING),
    "a deep left operand": ((130, 1100, 70), "tn", PACKING),
    "rows of the right operand as long as a page": ((130, 20, 1024), "nn", {"pack_right"}),
    "shorter rows": ((130, 20, 1000), "nn", set()),
    "a large right operand": ((130, 500, 900), "nn", {"pack_right"}),
    "a deep right operand": ((130, 600, 100), "nn", {"pack_right"}),
}


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("case", CHOICES)
def test_choices(device, case):
    (m, k, n), strides, expected = CHOICES[case]
    left = values(k, m).T if strides[0] == "t" else values(m, k)
    assert packed(device, left, values(k, n)) == on_processor(device, expected)


@pytest.mark.usefixtures("timed")
def test_strides_of_zero(device):
    left, right = values(1, 40).expand(60, 40), values(1, 97).expand(40, 97)
    assert packed(device, left, right) == on_processor(device, set())
