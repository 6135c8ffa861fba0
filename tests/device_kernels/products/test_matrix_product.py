"""The engine `matrix_product` against CPU: layouts, factors, and sizes around its tiles."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.device_kernels.on_device import with_strides
from torch_outboard import fallback


def check(
    function,
    *tensors: torch.Tensor,
    device: torch.device,
    host: str = "error",
    **options: float,
) -> None:
    """`function(*tensors)` on the device against CPU.

    Args:
        host: the policy for host kernels; by default device kernels have to do it.
    """
    expected = function(*tensors)
    operands = [with_strides(tensor, device) for tensor in tensors]
    with fallback.policy(shared=host, copied=host):
        actual = function(*operands)
    assert actual.device.type == device.type
    torch.testing.assert_close(actual.cpu(), expected, **options)


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    return torch.randint(0, 9, sizes).to(dtype)


# Around the 12 rows and 16 columns of a tile and the depth of 256 that is packed at a time.
SIZES = [
    (1, 1, 1),
    (12, 256, 16),
    (11, 255, 15),
    (13, 257, 17),
    (33, 40, 70),
    (64, 1, 64),
    (3, 90, 5),
]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
@pytest.mark.parametrize("transposed", [*itertools.product((False, True), repeat=2)])
def test_mm(device, m, k, n, transposed):
    left = values(k, m).T if transposed[0] else values(m, k)
    right = values(n, k).T if transposed[1] else values(k, n)
    check(torch.mm, left, right, device=device, rtol=1e-5, atol=1e-4)


# Around the tiles of groups of 64 work items, which are 32 or 64 lines high and wide, with slices
# of 8 or 16, and so deep that groups share a tile.
GROUP_SIZES = [
    (32, 16, 32),
    (64, 8, 64),
    (65, 17, 63),
    (97, 7, 130),
    (33, 2100, 34),
    (130, 1033, 70),
]


@pytest.mark.parametrize(("m", "k", "n"), GROUP_SIZES)
@pytest.mark.parametrize("transposed", [*itertools.product((False, True), repeat=2)])
def test_tiles_of_groups(device, m, k, n, transposed):
    # One element behind the beginning of memory, and with space between rows.
    left = values(k, m + 3)[:, 1 : m + 1].T if transposed[0] else values(m, k + 3)[:, 1 : k + 1]
    right = values(n, k + 3)[:, 1 : k + 1].T if transposed[1] else values(k, n + 3)[:, 1 : n + 1]
    check(torch.mm, left, right, device=device, rtol=1e-5, atol=1e-3)
    check(torch.addmm, values(n), left, right, device=device, rtol=1e-5, atol=1e-3)


# Rows and columns of which eight are read at once, and such of which they are not.
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
    near = {"device": device, "rtol": 1e-5, "atol": 1e-3}
    left, right = values(m, k), values(k, n)
    check(torch.mm, left, right, **near)
    check(torch.mm, left.T.contiguous().T, right.T.contiguous().T, **near)
    check(lambda x, y, z: torch.addmm(x, y, z, beta=2, alpha=3), values(m, n), left, right, **near)
    check(torch.bmm, values(3, m, k), values(3, k, n), **near)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.float64, torch.uint8])
def test_dtypes(device, dtype):
    check(torch.mm, values(20, 50, dtype=dtype), values(50, 33, dtype=dtype), device=device)


def test_sums_of_low_precision_are_made_in_float32(device):
    ones = torch.ones(1, 5000, dtype=torch.bfloat16)
    product = torch.mm(with_strides(ones, device), with_strides(ones.T, device))
    assert product.item() == torch.tensor(5000.0).bfloat16().item()


def test_narrow_integers_wrap(device):
    left = torch.full((16, 300), 100, dtype=torch.int8)
    check(torch.mm, left, left.T, device=device)


def test_strided_operands_are_not_changed_or_copied(device):
    base = values(40, 60)
    check(lambda x: torch.mm(x[::2, ::3], x[1::4, :20].T), base, device=device)
    check(lambda x: torch.mm(x[:20, 5:6].expand(20, 30), x[10:40, :17]), base, device=device)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_zero_sizes(device, sizes):
    m, k, n = sizes
    # Sums of nothing are left to the host.
    host = "allow" if k == 0 else "error"
    check(torch.mm, values(m, k), values(k, n), device=device, host=host)
    check(torch.addmm, values(m, n), values(m, k), values(k, n), device=device, host=host)
    check(torch.bmm, values(2, m, k), values(2, k, n), device=device, host=host)
    check(torch.addbmm, values(m, n), values(2, m, k), values(2, k, n), device=device, host=host)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, -2.0), (1, 1)])
def test_addmm_broadcasts(device, alpha, beta):
    for sizes in ((24, 36), (36,), (24, 1), (1, 1), ()):
        check(
            lambda x, y, z: torch.addmm(x, y, z, alpha=alpha, beta=beta),
            values(*sizes),
            values(24, 40),
            values(40, 36),
            device=device,
            rtol=1e-5,
            atol=1e-4,
        )


@pytest.mark.parametrize("size", [3, 40])
def test_beta_zero_does_not_read(device, size):
    nan = torch.full((size, size), float("nan"))
    left, right = values(size, size), values(size, size)
    result = torch.addmm(
        with_strides(nan, device), with_strides(left, device), with_strides(right, device), beta=0
    )
    torch.testing.assert_close(result.cpu(), left @ right, rtol=1e-5, atol=1e-4)


def test_nan_and_infinity_pass(device):
    left, right = values(20, 30), values(30, 40)
    left[3, 4], right[5, 6] = float("nan"), float("inf")
    check(torch.mm, left, right, device=device, equal_nan=True, rtol=1e-5, atol=1e-4)


def test_an_output_beside_an_operand_in_one_storage(device):
    x = values(20, 40)
    dx = with_strides(x, device)
    torch.mm(dx[:, :20], dx[:, :20], out=dx[:, 20:])
    torch.testing.assert_close(dx[:, 20:].cpu(), x[:, :20] @ x[:, :20], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(dx[:, :20].cpu(), x[:, :20])


@pytest.mark.parametrize("size", [(3, 4, 5, 6), (4, 17, 30, 19)])
def test_batches(device, size):
    b, m, k, n = size
    left, right = values(b, m, k), values(b, k, n)
    near = {"device": device, "rtol": 1e-5, "atol": 1e-4}
    check(torch.bmm, left, right, **near)
    check(
        lambda x, y: torch.bmm(x.transpose(1, 2), y.transpose(1, 2)),
        values(b, k, m),
        values(b, n, k),
        **near,
    )
    check(lambda x, y: torch.bmm(x[:1].expand(b, m, k), y), left, right, **near)
    check(lambda x, y, z: torch.baddbmm(x, y, z, beta=3), values(n), left, right, **near)
    check(lambda x, y, z: torch.addbmm(x, y, z, alpha=2), values(m, n), left, right, **near)


def test_vectors(device):
    near = {"device": device, "rtol": 1e-5, "atol": 1e-4}
    m, k = 100, 130
    check(torch.mv, values(m, k), values(k), **near)
    check(lambda x, y: torch.mv(x.T, y), values(k, m), values(k), **near)
    check(torch.addmv, values(m), values(m, k), values(k), **near)
    check(torch.addr, values(m, k), values(m), values(k), **near)
    check(lambda x, y: torch.dot(x[::2], y[::2]), values(2 * k), values(2 * k), **near)


def test_long_vectors(device):
    x, y = values(100_003), values(100_003)
    expected = torch.dot(x.double(), y.double()).float()
    result = torch.dot(with_strides(x, device), with_strides(y, device))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-2)
    assert torch.dot(with_strides(x, device), with_strides(y, device)).item() == result.item()
