"""Products of matrices with what follows them in one kernel, as `max-autotune` makes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.inductor.support import check
from torch_outboard import _C
from torch_outboard.ops.products.texts import group_text
from torch_outboard.ops.row import template

pytestmark = [pytest.mark.by_turns(3), pytest.mark.usefixtures("always_fused")]

MODE = "max-autotune-no-cudagraphs"


def check_fused(
    function: Any, *given: torch.Tensor, device: Any, count: int = 1, tolerance: float = 1e-4
) -> None:
    """Results are those of eager CPU, by so many kernels of a product and what follows it."""
    check(function, *given, device=device, tolerance=tolerance, mode=MODE)
    assert counters[device.type]["fused_products"] == count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_linear_layers(device, dtype):
    def layers(x, w, b, r):
        return (
            F.gelu(F.linear(x, w, b)),
            F.relu(F.linear(x, w, b)) + r,
            F.hardtanh(F.linear(x, w), -3.0, 3.0) * b,
            F.linear(x, w, b) + r,
            torch.tanh(x.reshape(-1, 64) @ w.t() + b),
        )

    given = [torch.randn(size).to(dtype) for size in ((2, 23, 64), (70, 64), (70,), (2, 23, 70))]
    expected = layers(*(x.double() for x in given))
    with torch.no_grad():
        actual = torch.compile(layers, mode=MODE)(*(x.to(device) for x in given))
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    for ours, right in zip(actual, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.cpu().double(), right, rtol=tolerance, atol=tolerance)
    assert counters[device.type]["fused_products"] >= 4


def test_operands_in_place(device):
    """Rows and columns that fill no tiles, of operands whose tiles read them where they are."""

    def function(x, w, b, r):
        return [F.gelu(rows @ w + b) + r for rows in (x, x.t())]

    given = [torch.randn(size) for size in ((61, 61), (61, 97), (97,), (61, 97))]
    check_fused(function, *given, device=device, count=2)


def test_training(device):
    """Of relu, whose mask comes from its result; of gelu, whose sum is stored besides."""

    def function(x, w, b, v, u):
        hidden = F.relu(F.linear(x, w, b))
        return F.linear(F.gelu(F.linear(hidden, v)), u)

    sizes = ((2, 16, 64), (48, 64), (48,), (64, 48), (48, 64))
    given = [torch.randn(size) / 4 for size in sizes]
    mine = [x.to(device).requires_grad_() for x in given]
    reference = [x.clone().requires_grad_() for x in given]
    torch.compile(function, mode=MODE)(*mine).square().sum().backward()
    function(*reference).square().sum().backward()
    for ours, right in zip(mine, reference, strict=True):
        torch.testing.assert_close(ours.grad, right.grad, check_device=False, rtol=1e-4, atol=1e-3)
    assert counters[device.type]["fused_products"] == 4


def test_sums_that_others_use(device):
    """They are stored; what is computed of them elsewhere is no operand."""

    def function(x, w):
        first, second = x @ w, w @ x
        centred = second - second.amax(-1, keepdim=True)
        return first, first.relu(), first.sum(0), centred.exp() * 2, second * 3

    check_fused(function, torch.randn(40, 40) / 8, torch.randn(40, 40), device=device, count=2)


def test_operands_of_rows_and_columns_masks_and_casts(device):
    def function(x, w, rows, columns, mask, other):
        product = x.reshape(-1, 64) @ w
        shaped = product.view(4, 12, 40) * (rows * 2).sigmoid()
        chosen = torch.where(mask, shaped + other, -columns)
        return chosen.half(), chosen > 0, torch.clamp(shaped, -1.0, 1.0)

    given = (
        torch.randn(4, 12, 64), torch.randn(64, 40), torch.randn(4, 12, 1), torch.randn(40),
        torch.rand(4, 12, 40) > 0.5, torch.randn(4, 12, 40).bfloat16(),
    )  # fmt: skip
    check_fused(function, *given, device=device, tolerance=2e-3)


def test_dropout_is_not_written_to_be_read(device):
    def function(x, w):
        return F.dropout(x @ w, 0.5)

    x, w = torch.randn(40, 40, device=device), torch.randn(40, 40, device=device)
    torch.manual_seed(0)
    actual = torch.compile(function, mode=MODE)(x, w)
    torch.manual_seed(0)
    torch.testing.assert_close(actual, function(x, w), rtol=1e-4, atol=1e-4)
    assert counters[device.type]["fused_products"] == 0


def test_open_sizes(device):
    def function(x, w, b, r):
        hidden = F.relu(F.linear(x, w, b)) + r
        return hidden, F.linear(x[0], w).tanh()

    graph = torch.compile(function, mode=MODE, dynamic=True)
    w, b = torch.randn(70, 64), torch.randn(70)
    for rows in (33, 21):
        given = torch.randn(3, rows, 64), w, b, torch.randn(3, rows, 70)
        actual = graph(*(x.to(device) for x in given))
        torch.testing.assert_close(
            actual, function(*given), check_device=False, rtol=1e-4, atol=1e-4
        )
    assert counters[device.type]["fused_products"] == 2
    assert counters["stats"]["unique_graphs"] == 1


def call(left, right, body, places="", operands=(), results=(torch.float32,), of_row="", values=0):
    texts = _C.EpilogueTexts(of_row, values, body, places)
    kernel = _C.FusedProduct(template("matrix_product"), group_text())
    return kernel(left, right, texts, operands, results)


def test_strides_of_operands(device):
    left, right = torch.randn(64, 33).t(), torch.randn(71, 128).t()[::2]
    added, other = torch.randn(33, 1), torch.randn(71, 33).t()
    expected = (left @ right + added) * 2 + other
    given = [x.to(device) for x in (left, right, added, other)]
    (actual,) = call(
        *given[:2], "r[0] = k[0] + a * C(2) + b1;", "re", given[2:], of_row="k[0] = b0 * C(2);",
        values=1,
    )  # fmt: skip
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-4)


def test_wrong_operands(device):
    x = torch.zeros(4, 5, device=device)
    y = x.t()
    for arguments, message in (
        ((x, x, "r[0] = a;"), "matrices that fit"),
        ((x, y.cpu(), "r[0] = a;"), "one floating dtype on one device"),
        ((x, y.int(), "r[0] = a;"), "one floating dtype on one device"),
        ((x, y, "r[0] = a;", "e", [torch.zeros(4, 4)]), "is a tensor on"),
        ((x, y, "r[0] = a;", "q", [x]), "a letter, 'e', 'r' or 'c', for each operand"),
        ((x, y, "r[0] = a;", "", (), ()), "at least one result"),
        ((x, y, "r[0] = a;", "", (), (torch.complex64,)), "no values of the dtype"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)
    with pytest.raises(RuntimeError):
        call(x, y, "r[0] = a;", "r", [torch.zeros(3, device=device)])
