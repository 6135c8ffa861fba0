"""Elements that are repeated at places that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, check_sizes, checked_code

SIZES = {
    "twice": ((2, 3, 8, 8), {"scale_factor": 2.0}),
    "twice and three times": ((2, 3, 8, 9), {"scale_factor": (2.0, 3.0)}),
    "one dimension": ((2, 3, 8, 9), {"size": (16, 9)}),
    "lines": ((2, 3, 19), {"scale_factor": 3}),
    "volumes": ((2, 3, 4, 5, 6), {"scale_factor": 2}),
    "exact": ((2, 3, 8, 8), {"scale_factor": 2, "mode": "nearest-exact"}),
    "unevenly": ((2, 3, 8, 9), {"scale_factor": 1.7}),
    "smaller": ((2, 3, 8, 8), {"scale_factor": 0.5}),
}


def larger(options: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x * 2, **{"mode": "nearest", **options}) + 1


def derivative(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def compute(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(function(x).sin().sum(), x)
        return gradient

    return compute


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_values_and_derivatives(name: str, dtype: torch.dtype, device: torch.device):
    size, options = SIZES[name]
    function, x = larger(options), torch.randn(size, dtype=dtype, requires_grad=True)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return function(x.detach()), derivative(function)(x)

    check(both, x, device=device, tolerance=1e-5 if dtype == torch.float32 else 5e-2)


@pytest.mark.parametrize(
    "name",
    [
        "twice",
        *(
            pytest.param(name, marks=pytest.mark.by_turns(3))
            for name in ("twice and three times", "lines", "exact")
        ),
    ],
)
def test_nothing_is_added_one_by_one(name: str, device: torch.device):
    size, options = SIZES[name]
    x = torch.randn(size, requires_grad=True)
    code = checked_code(derivative(larger(options)), x, device=device)
    assert "ob_atomic_add" not in code
    assert "ob_accumulate" not in code


def test_other_layouts(device: torch.device):
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    function = larger({"scale_factor": 2})
    compiled = torch.compile(function)(x.to(device))
    torch.testing.assert_close(compiled.cpu(), function(x))
    assert compiled.stride() == function(x).stride()


def test_indices_of_users(device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at = torch.arange(8, device=x.device)
        return x[at // 2] * 3, x[at // 2 + 0 * at], x[(at + 1) // 2 % 4], x[at.flip(0) // 2]

    check(function, torch.randn(4, 5), device=device)


def test_sizes_stay_open(device: torch.device):
    calls = [(torch.randn(2, 3, size, 8),) for size in (4, 6, 9)]
    check_sizes(larger({"scale_factor": 2}), *calls, device=device)


@pytest.mark.by_turns(2)
def test_values_that_are_fewer_than_places(device: torch.device):
    """They are added at all of them."""

    def function(*values: torch.Tensor) -> list[torch.Tensor]:
        at = torch.arange(8, device=values[0].device) // 2
        zeros = torch.zeros(4, 5, device=values[0].device)
        return [zeros.index_put((at,), each * 2, accumulate=True) for each in values]

    check(function, torch.randn(8, 1), torch.randn(8, 5), torch.randn(1, 5), device=device)
