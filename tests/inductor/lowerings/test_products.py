"""Products of matrices with what follows them in one kernel, as `max-autotune` makes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.inductor.support import check
from torch_outboard import _C
from torch_outboard.inductor.lowerings import products
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


def check_training(function: Any, *given: torch.Tensor, device: Any, count: int) -> None:
    """As `check_fused`, with a backward pass of its own."""
    mine = [x.to(device).requires_grad_() for x in given]
    reference = [x.clone().requires_grad_() for x in given]
    torch.compile(function, mode=MODE)(*mine).square().sum().backward()
    function(*reference).square().sum().backward()
    for ours, right in zip(mine, reference, strict=True):
        torch.testing.assert_close(ours.grad, right.grad, check_device=False, rtol=1e-4, atol=1e-3)
    assert counters[device.type]["fused_products"] == count


def layers(x: Any, w: Any, b: Any, r: Any) -> Any:
    flat = x.reshape(-1, 64)
    return (
        F.gelu(F.linear(x, w, b)),
        F.relu(F.linear(x, w, b)) + r,
        F.hardtanh(F.linear(x, w), -3.0, 3.0) * b,
        F.linear(x, w, b) + r,
        torch.tanh(flat @ w.t() + b),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_linear_layers(device, dtype):
    torch.manual_seed(0)
    given = [torch.randn(size).to(dtype) for size in ((2, 23, 64), (70, 64), (70,), (2, 23, 70))]
    expected = layers(*(x.double() for x in given))
    graph = torch.compile(layers, mode=MODE)
    with torch.no_grad():
        actual = graph(*(x.to(device) for x in given))
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    for ours, right in zip(actual, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.cpu().double(), right, rtol=tolerance, atol=tolerance)
    assert counters[device.type]["fused_products"] >= 4


@pytest.mark.parametrize("turned", [False, True])
def test_operands_in_place(device, turned):
    """Rows and columns that fill no tiles, of operands whose tiles read them where they are."""

    def function(x, w, b, r):
        return F.gelu((x.t() if turned else x) @ w + b) + r

    given = [torch.randn(size) for size in ((61, 61), (61, 97), (97,), (61, 97))]
    check_fused(function, *given, device=device)


def test_training(device):
    """The mask of relu comes from its result, so the sum is not needed."""
    given = torch.randn(32, 64), torch.randn(48, 64), torch.randn(48)
    check_training(lambda x, w, b: F.relu(F.linear(x, w, b)), *given, device=device, count=1)


def test_a_sum_that_somebody_else_needs_is_stored_too(device):
    def function(x, w):
        product = x @ w
        return product, product.relu(), product.sum(0)

    check_fused(function, torch.randn(40, 40), torch.randn(40, 40), device=device)


def test_training_with_a_sum_that_is_kept(device):
    """Forward the sum is stored besides the activation; backward its derivative is computed."""

    def function(x, w, b, v):
        return F.linear(F.gelu(F.linear(x, w, b)), v)

    given = [torch.randn(size) / 4 for size in ((2, 16, 64), (48, 64), (48,), (64, 48))]
    check_training(function, *given, device=device, count=2)


def test_what_is_computed_of_the_results_elsewhere_is_no_operand(device):
    def function(x, w):
        product = x @ w
        return (product - product.amax(-1, keepdim=True)).exp() * 2, product * 3

    check_fused(function, torch.randn(40, 40) / 8, torch.randn(40, 40), device=device)


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


def test_what_is_not_faster_is_left_alone(device, monkeypatch):
    monkeypatch.setattr(products, "_measured", lambda *given: False)
    check_fused(lambda x: (x @ x).relu(), torch.randn(40, 40), device=device, count=0)


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


def test_results(device):
    x = torch.randn(19, 37)
    given = x.to(device)
    kinds = (torch.bool, torch.float16, torch.float32)
    body = "r[0] = a > C(0) ? C(1) : C(0); r[1] = a; r[2] = a + a;"
    actual = call(given, given.t(), body, results=kinds)
    product = x @ x.t()
    expected = [product > 0, product.half(), product * 2]
    torch.testing.assert_close(actual, expected, check_device=False, rtol=2e-3, atol=2e-3)


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
