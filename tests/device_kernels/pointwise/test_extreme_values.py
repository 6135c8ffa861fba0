"""Functions of infinite, huge, tiny and missing numbers are those of CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

INF, NAN = float("inf"), float("nan")
REAL = [0.0, -0.0, INF, -INF, NAN, 1e-40, -1e-40, 1.0, -1.0, 30.0, -30.0, 1e4, -1e4]
HUGE = [0.0, -0.0, INF, -INF, 1.0, -1.0, 100.0, -100.0, 1e4, 1e20, 3e38]

functional = torch.nn.functional
GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "elu": functional.elu,
    "hardshrink": functional.hardshrink,
    "hardswish": functional.hardswish,
    "hardtanh": functional.hardtanh,
    "mish": functional.mish,
    "softshrink": functional.softshrink,
    "tanh": torch.tanh,
}


def test_gradients(device: torch.device) -> None:
    wrong = []
    for name, function in GRADIENTS.items():
        sides = []
        for place in (torch.device("cpu"), device):
            x = torch.tensor(REAL * 8, device=place, requires_grad=True)
            y = function(x)
            sides.append(torch.autograd.grad(y, x, torch.ones_like(y))[0].cpu())
        if not torch.allclose(*sides, rtol=1e-4, atol=1e-5, equal_nan=True):
            wrong.append((name, [s[: len(REAL)].tolist() for s in sides]))
    assert not wrong


@pytest.mark.parametrize("name", ["tan", "special_spherical_bessel_j0", "tanh", "sin"])
def test_real_functions(device: torch.device, name: str) -> None:
    function = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))
    x = torch.tensor(REAL)
    torch.testing.assert_close(function(x.to(device)).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("name", ["tanh", "sin", "cos", "sinh", "cosh", "log", "log1p", "tan"])
def test_complex_functions(device: torch.device, name: str) -> None:
    x = torch.tensor([complex(a, b) for a in HUGE for b in HUGE])
    function = getattr(torch, name)
    expected, actual = (torch.view_as_real(t) for t in (function(x), function(x.to(device)).cpu()))
    # Which parts are missing of what is not a number differs between C libraries.
    defined = ~expected.isnan().any(-1)
    torch.testing.assert_close(actual[defined], expected[defined], rtol=1e-4, atol=1e-5)


def test_gelu_of_infinity_is_infinite(device: torch.device) -> None:
    x = torch.tensor([INF] * 33 + [3e38], device=device)
    torch.testing.assert_close(functional.gelu(x), x)
