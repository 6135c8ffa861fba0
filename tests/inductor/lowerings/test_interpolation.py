"""Elements that are repeated at known indices."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import check, check_sizes, checked_code

REPEATED = {
    "twice": ((2, 3, 8, 8), {"scale_factor": 2.0}),
    "twice and three times": ((2, 3, 8, 9), {"scale_factor": (2.0, 3.0)}),
    "one dimension": ((2, 3, 8, 9), {"size": (16, 9)}),
    "lines": ((2, 3, 19), {"scale_factor": 3}),
    "volumes": ((2, 3, 4, 5, 6), {"scale_factor": 2}),
    "exact": ((2, 3, 8, 8), {"scale_factor": 2, "mode": "nearest-exact"}),
}
OTHERWISE = {
    "unevenly": ((2, 3, 8, 9), {"scale_factor": 1.7}),
    "smaller": ((2, 3, 8, 8), {"scale_factor": 0.5}),
}


def larger(options: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x * 2, **{"mode": "nearest", **options}) + 1


def checked(names: list[str], dtype: torch.dtype, tolerance: float, device: torch.device) -> str:
    """The code of enlarged images and their derivatives, whose values are compared."""
    cases = [(REPEATED | OTHERWISE)[name] for name in names]

    def both(*given: torch.Tensor) -> list[torch.Tensor]:
        results = [larger(options)(x) for x, (_, options) in zip(given, cases, strict=True)]
        gradients = torch.autograd.grad(sum(y.sin().sum() for y in results), given)
        return [*(y.detach() for y in results), *gradients]

    given = [torch.randn(size, dtype=dtype, requires_grad=True) for size, _ in cases]
    return checked_code(both, *given, device=device, tolerance=tolerance)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["twice"], marks=pytest.mark.by_turns(2), id="twice"),
        pytest.param([*REPEATED][1:], marks=pytest.mark.by_turns(3), id="others"),
    ],
)
def test_nothing_is_added_one_by_one(names: list[str], device: torch.device):
    code = checked(names, torch.float32, 1e-5, device)
    assert "ob_atomic_add" not in code
    assert "ob_accumulate" not in code


@pytest.mark.by_turns(3)
def test_halves(device: torch.device):
    checked(["twice", "lines", "unevenly"], torch.float16, 5e-2, device)


@pytest.mark.by_turns(3)
def test_indices_that_are_no_repetition(device: torch.device):
    """Values that are fewer than indices are added at all of them."""

    def function(x: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
        at = torch.arange(8, device=x.device)
        zeros = torch.zeros(4, 5, device=x.device)
        added = [zeros.index_put((at // 2,), each * 2, accumulate=True) for each in values]
        read = x[at // 2] * 3, x[at // 2 + 0 * at], x[(at + 1) // 2 % 4], x[at.flip(0) // 2]
        return [*read, *added]

    values = torch.randn(8, 1), torch.randn(8, 5), torch.randn(1, 5)
    check(function, torch.randn(4, 5), *values, device=device)
    checked([*OTHERWISE], torch.float32, 1e-5, device)


@pytest.mark.by_turns(2)
def test_other_layouts(device: torch.device):
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    function = larger({"scale_factor": 2})
    compiled = torch.compile(function)(x.to(device))
    torch.testing.assert_close(compiled.cpu(), function(x))
    assert compiled.stride() == function(x).stride()


@pytest.mark.by_turns(2)
def test_sizes_stay_open(device: torch.device):
    calls = [(torch.randn(2, 3, size, 8),) for size in (4, 6, 9)]
    check_sizes(larger({"scale_factor": 2}), *calls, device=device)
