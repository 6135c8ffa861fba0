"""Matrix products against CPU: layouts, factors, and sizes around its tiles."""

import itertools
from functools import partial

import pytest
import torch

from tests.device_kernels.on_device import difference
from torch_outboard import fallback
from torch_outboard.scoreboard.comparison.transplant import Transplant

NEAR = {"rtol": 1e-5, "atol": 1e-4}
LESS_NEAR = {"rtol": 1e-5, "atol": 1e-3}  # sums of many


def check(function, *tensors: torch.Tensor, device: torch.device, **options: float) -> None:
    """`function(*tensors)` by device kernels against CPU."""
    expected = function(*tensors)
    operands = Transplant(device)(tensors)
    with fallback.policy(host="error", copied="error"):
        actual = function(*operands)
    assert actual.device.type == device.type
    torch.testing.assert_close(actual.cpu(), expected, **options)


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    return torch.randint(0, 9, sizes).to(dtype)


# Around the tiles of groups of 64 work items, which are 32 or 64 lines high and wide, with slices
# of 8 or 16, and so deep that groups share a tile.
GROUP_SIZES = [
    (32, 16, 32), (64, 8, 64), (65, 17, 63), (97, 7, 130), (33, 2100, 34), (130, 1033, 70),
]  # fmt: skip


@pytest.mark.parametrize(("m", "k", "n"), GROUP_SIZES)
def test_tiles_of_groups(device, m, k, n):
    # One element behind the beginning of memory, and with space between rows.
    inner = lambda *sizes: values(sizes[0], sizes[1] + 3)[:, 1 : sizes[1] + 1]  # noqa: E731
    for transposed in itertools.product((False, True), repeat=2):
        left = inner(k, m).T if transposed[0] else inner(m, k)
        right = inner(n, k).T if transposed[1] else inner(k, n)
        check(torch.mm, left, right, device=device, **LESS_NEAR)
        check(torch.addmm, values(n), left, right, device=device, **LESS_NEAR)


# Rows and columns that are read eight elements at once, and others.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 96, 72), (72, 60, 65), (33, 1064, 40)])
def test_tiles_of_halves(device, dtype, m, k, n):
    left, right = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
    near = {"device": device, "rtol": 2e-2, "atol": 2e-1}
    check(torch.mm, left, right, **near)
    check(torch.mm, left.T.contiguous().T, right.T.contiguous().T, **near)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(700, 130, 1), (3, 5000, 2), (1, 333, 130), (2, 900, 90)]
)
def test_results_of_few_columns_or_rows(device, m, k, n):
    near = {"device": device, **LESS_NEAR}
    left, right = values(m, k), values(k, n)
    check(torch.mm, left, right, **near)
    check(torch.mm, left.T.contiguous().T, right.T.contiguous().T, **near)
    check(partial(torch.addmm, beta=2, alpha=3), values(m, n), left, right, **near)
    check(torch.bmm, values(3, m, k), values(3, k, n), **near)


def test_sums_of_low_precision_are_made_in_float32(device):
    ones = torch.ones(1, 5000, dtype=torch.bfloat16)
    product = torch.mm(ones.to(device), ones.T.to(device))
    assert product.item() == torch.tensor(5000.0).bfloat16().item()


def test_narrow_integers_wrap(device):
    left = torch.full((16, 300), 100, dtype=torch.int8)
    check(torch.mm, left, left.T, device=device)


def test_strided_operands_are_not_changed_or_copied(device):
    base = values(40, 60)
    check(lambda x: torch.mm(x[::2, ::3], x[1::4, :20].T), base, device=device)
    check(lambda x: torch.mm(x[:20, 5:6].expand(20, 30), x[10:40, :17]), base, device=device)


def test_addmm_broadcasts(device):
    for sizes in ((24, 36), (36,), (24, 1), (1, 1), ()):
        operands = values(*sizes), values(24, 40), values(40, 36)
        check(partial(torch.addmm, alpha=0.5, beta=-2.0), *operands, device=device, **NEAR)


@pytest.mark.parametrize("size", [3, 40])
def test_beta_zero_does_not_read(device, size):
    nan = torch.full((size, size), float("nan"))
    operands = nan, values(size, size), values(size, size)
    check(partial(torch.addmm, beta=0), *operands, device=device, **NEAR)


SUM = (torch.randn(4, 2, 3), torch.randn(4, 3, 5))
ROW, COLUMN = torch.randn(5), torch.randn(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, b, u, v: torch.addbmm(x, a, b, alpha=torch.inf),
        lambda x, a, b, u, v: x[0].clone().addbmm_(a, b),
        lambda x, a, b, u, v: torch.addr(x, u, v, beta=True),
        lambda x, a, b, u, v: torch.addr(x, u, v, alpha=True),
        lambda x, a, b, u, v: torch.addr(x, u, v, beta=2, alpha=3),
    ],
)
def test_numbers_and_sizes_that_cpu_treats_otherwise(device, call):
    assert difference(device, call, torch.randn(2, 5), *SUM, COLUMN, ROW) is None


def test_nan_and_infinity_pass(device):
    left, right = values(20, 30), values(30, 40)
    left[3, 4], right[5, 6] = float("nan"), float("inf")
    check(torch.mm, left, right, device=device, equal_nan=True, **NEAR)


def test_an_output_beside_an_operand_in_one_storage(device):
    def run(x):
        torch.mm(x[:, :20], x[:, :20], out=x[:, 20:])
        return x

    assert difference(device, run, values(20, 40)) is None


@pytest.mark.parametrize("size", [(3, 4, 5, 6), (4, 17, 30, 19)])
def test_batches(device, size):
    b, m, k, n = size
    left, right = values(b, m, k), values(b, k, n)
    near = {"device": device, **NEAR}
    check(torch.bmm, left, right, **near)
    check(torch.bmm, values(b, k, m).mT, values(b, n, k).mT, **near)
    check(lambda x, y: torch.bmm(x[:1].expand(b, m, k), y), left, right, **near)
    check(partial(torch.baddbmm, beta=3), values(n), left, right, **near)
    check(partial(torch.addbmm, alpha=2), values(m, n), left, right, **near)


def test_vectors(device):
    near = {"device": device, **NEAR}
    m, k = 100, 130
    check(torch.mv, values(m, k), values(k), **near)
    check(torch.addmv, values(m), values(k, m).T, values(k), **near)
    check(lambda x, y: torch.dot(x[::2], y[::2]), values(2 * k), values(2 * k), **near)


def test_long_vectors(device):
    x, y = values(100_003), values(100_003)
    expected = torch.dot(x.double(), y.double()).float()
    result = torch.dot(x.to(device), y.to(device))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-2)
    assert torch.dot(x.to(device), y.to(device)).item() == result.item()


@pytest.mark.parametrize("product", [torch.dot, torch.vdot])
def test_tensors_of_zeros_without_memory(device, product):
    """Forward mode passes them for tangents that are zero."""
    x, zeros = torch.ones(3, device=device), torch._efficientzerotensor((3,), device=device)
    assert product(x, zeros).item() == product(zeros, x).item() == 0
