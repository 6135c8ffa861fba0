"""Reductions in compiled graphs: both directions of lanes, several passes, ties and NaN."""

import torch
import torch.nn.functional as F

from tests.inductor.support import check, checked_code


def test_reductions_along_either_dimension(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.sum(1), x.sum(0), x.sum(), x.amax(1), x.amin(0), x.prod(1), x.argmax(1), x.argmin(0),
            (x > 3).any(0), (x > -9).all(1), x.var(1), x.mean(0),
            x[:, None].expand(37, 9, 110).sum(1),  # does not depend on what is reduced
        )  # fmt: skip

    check(function, torch.randn(37, 110) * 0.5 + 1, device=device, tolerance=1e-4)


def test_a_norm_is_one_kernel(device: torch.device):
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (110,), w, b)

    arguments = torch.randn(37, 110), torch.randn(110), torch.randn(110)
    code = checked_code(function, *arguments, device=device, tolerance=1e-4)
    assert code.count("__kernel void") == 1


def test_indices_of_equal_and_missing_values(device: torch.device):
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Indices are in logical order, also where memory has another one.
        return x.argmax(1), x.argmin(1), x.amax(1), y.permute(1, 0, 2).argmax()

    x = torch.randint(0, 3, (20, 67)).float()  # the first is in another lane than the first one
    x[:4] = 0
    x[1, 40] = x[1, 60] = 2
    x[2, 35] = x[2, 66] = float("nan")
    x[3] = float("-inf")
    check(function, x, torch.randn(5, 6, 7), device=device)


def test_scans_along_either_dimension(device: torch.device):
    """Rows of several vectors and a rest, whose carry goes from one to the other."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(1) + x.softmax(1), x.cumsum(0), (x * 0.1 + 1).cumprod(1), *x.cummax(1)

    check(function, torch.randn(5, 71), device=device, tolerance=1e-4)


def test_variances_far_from_zero(device: torch.device):
    """Sums of squares alone would have no digit left; the first value of a row is far off."""
    x = torch.randn(3, 3000, dtype=torch.float64) + 1000
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
