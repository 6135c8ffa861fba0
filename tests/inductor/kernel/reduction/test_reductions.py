"""Reductions in compiled graphs: both directions of lanes, several passes, ties and NaN."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, checked_code


def test_reductions_along_either_dimension(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.sum(1), x.sum(0), x.sum(), x.amax(1), x.amin(0), x.prod(1), x.argmax(1), x.argmin(0),
            (x > 3).any(0), (x > -9).all(1), x.var(1), x.mean(0),
        )  # fmt: skip

    check(function, torch.randn(37, 110) * 0.5 + 1, device=device, tolerance=1e-4)


def test_softmax_and_norms_are_one_kernel(device: torch.device):
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (110,), w, b)

    arguments = torch.randn(37, 110), torch.randn(110), torch.randn(110)
    code = checked_code(function, *arguments, device=device, tolerance=1e-4)
    assert code.count("__kernel void") == 1
    check(lambda x: x.softmax(1), arguments[0], device=device)


def test_places_of_equal_and_missing_values(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.argmax(1), x.argmin(1), x.amax(1)

    x = torch.zeros(4, 67)
    x[1, 40] = x[1, 60] = 2
    x[2, 35] = x[2, 66] = float("nan")
    x[3] = float("-inf")
    check(function, x, device=device)
    # Many equal values, so that another lane than the first has the first of them.
    check(function, torch.randint(0, 3, (16, 67)).float(), device=device)


def test_places_count_in_logical_order(device: torch.device):
    """Also where memory has another order: PyTorch's lowering leaves that to known backends."""
    check(lambda x: x.permute(1, 0, 2).argmax(), torch.randn(5, 6, 7), device=device)


@pytest.mark.slow
def test_sums_that_ignore_the_reduction(device: torch.device):
    """The value does not depend on the reduced dimension."""
    check(lambda x: x[:, None].expand(20, 9, 30).sum(1), torch.randn(20, 30), device=device)


def test_scans_along_either_dimension(device: torch.device):
    """Rows of several vectors and a rest, whose carry goes from one to the other."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(1) + x.softmax(1), x.cumsum(0), (x * 0.1 + 1).cumprod(1), *x.cummax(1)

    check(function, torch.randn(5, 71), device=device, tolerance=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_variances_far_from_zero(device: torch.device, offset: float):
    """Sums of squares alone would have no digit left; the first value of a row is far off."""
    x = torch.randn(3, 3000, dtype=torch.float64) + offset
    x[:, 0] -= 50
    expected = torch.cat([*torch.var_mean(x, 1), *torch.var_mean(x, 0)])
    x = x.float().to(device)
    actual = torch.compile(lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x, 0)))(x)
    torch.testing.assert_close(torch.cat(actual).cpu().double(), expected, rtol=2e-4, atol=2e-3)


def test_columns_of_several_vectors_and_a_rest(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.sum(0) * 2, x.amax(0), x.var(0))

    check(function, torch.randn(19, 3001), device=device, tolerance=1e-4)


def test_weights_of_channels_are_no_gathers(device: torch.device):
    """A quotient of an index that is the same for all lanes of a vector."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.silu(F.group_norm(x, 2, w, w))

    arguments = torch.randn(2, 4, 8, 8), torch.randn(4)
    code = checked_code(function, *arguments, device=device, tolerance=1e-4)
    assert "ob_gather_float16" not in code
