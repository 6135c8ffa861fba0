"""Custom operators with an expression, fused into kernels of compiled graphs."""

from collections.abc import Iterator

import pytest
import torch

import torch_outboard
from tests.inductor.support import kernels_of


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    library = torch.library.Library("outboard_inlined", "DEF")
    library.define("bent(Tensor x, float slope=0.5) -> Tensor")
    library.define("above(Tensor x, Tensor y) -> Tensor")
    library.impl("bent", lambda x, slope=0.5: torch.where(x > 0, x, slope * x.exp()), "CPU")
    library.impl("above", lambda x, y: x > y, "CPU")
    fake = torch.library.register_fake
    fake("outboard_inlined::bent", lambda x, slope=0.5: torch.empty_like(x), lib=library)
    fake("outboard_inlined::above", lambda x, y: torch.empty_like(x, dtype=torch.bool), lib=library)
    torch.library.register_autograd(
        "outboard_inlined::bent",
        lambda ctx, gradient: (gradient * ctx.saved_tensors[0].cos(), None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        lib=library,
    )
    with (
        torch_outboard.kernel(
            "outboard_inlined::bent", expression="a > C(0) ? a : slope * ob_exp(a)"
        ),
        torch_outboard.kernel("outboard_inlined::above", expression="a > b", result="mask"),
    ):
        yield
    library._destroy()


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    bent = torch.ops.outboard_inlined.bent(x * 2, 0.25) + 1
    return torch.where(torch.ops.outboard_inlined.above(bent, y), bent, y)


def test_fused_with_what_surrounds_it(device):
    x, y = torch.randn(5, 33).half(), torch.randn(5, 33).half()
    given = x.to(device), y.to(device)
    code = kernels_of(function, *given)
    assert code.count("__kernel void") == 1
    assert "torch.ops.outboard_inlined" not in code.split("async_compile.wait")[-1]
    torch.testing.assert_close(torch.compile(function)(*given), function(x, y), check_device=False)


def test_gradients_as_registered(device):
    x = torch.randn(40, device=device, requires_grad=True)
    y = torch.full((40,), -99.0, device=device)
    torch.compile(function)(x, y).sum().backward()
    # Of y nothing is taken; the derivative is that of `register_autograd`, and no true one.
    torch.testing.assert_close(x.grad.cpu(), 2 * (2 * x.detach().cpu()).cos())


def test_the_latest_kernel_counts(device):
    def function(x):
        return torch.ops.outboard_inlined.bent(x * 2, 0.25) + 1

    @torch_outboard.kernel("outboard_inlined::bent")
    def bent(x, slope):
        return x * 5

    x = torch.randn(40, device=device)
    for factor in (3, 5):
        with torch_outboard.kernel("outboard_inlined::bent", expression=f"a * C({factor})"):
            torch.testing.assert_close(torch.compile(function)(x), x * 2 * factor + 1)
        torch.compiler.reset()
    with bent:  # which is called
        torch.testing.assert_close(torch.compile(function)(x), x * 10 + 1)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(function)(x), function(x))


def test_what_an_expression_does_not_serve_is_called(device):
    function = torch.ops.outboard_inlined.bent
    x = torch.arange(-8, 9)
    with torch_outboard.kernel(
        "outboard_inlined::bent", expression="a * C(3)", requires={"slope": 1.0}
    ):
        graph = torch.compile(lambda x, slope: function(x, slope) + 1)
        y = x.float().to(device)
        torch.testing.assert_close(graph(y, 1.0), y * 3 + 1)
        torch.testing.assert_close(graph(y, 0.5), function(x.float(), 0.5) + 1, check_device=False)
