"""Settings of Inductor with which one looks for what is wrong."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._inductor import config

from torch_outboard import _C

pytestmark = pytest.mark.by_turns(3)

needs_kernels = pytest.mark.skipif(
    not _C.runs_code(0), reason="graphs become kernels where the device has a compiler"
)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_numbers_that_are_not_finite_stop_a_graph(dtype: torch.dtype, device: torch.device):
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x.float().log() + i).softmax(-1)

    i = torch.arange(5, device=device)
    with config.patch(nan_asserts=True):
        compiled = torch.compile(function)
        good = torch.rand(3, 5, device=device).to(dtype) + 1
        torch.testing.assert_close(compiled(good, i), function(good, i))
        with pytest.raises(AssertionError):  # by Inductor's look at what a graph is given
            compiled(good * float("nan"), i)
        with pytest.raises(AssertionError, match="NaN or infinity in"):
            compiled(good - 10, i)  # whose logarithm is none


@needs_kernels
def test_numbers_that_are_not_finite_in_lists_of_tensors(device: torch.device):
    def function(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return torch._foreach_mul(torch._foreach_log(x), 2.0)

    x = [torch.rand(size, device=device) + 1 for size in (3, 40, 5000)]
    with config.patch(nan_asserts=True):
        compiled = torch.compile(function)
        torch.testing.assert_close(compiled(x), function(x))
        x[1].neg_()
        with pytest.raises(AssertionError, match="NaN or infinity in"):
            compiled(x)


@needs_kernels
def test_code_around_kernels_stays_python(device: torch.device):
    x = torch.randn(4, 6, device=device)
    warned = pytest.warns(UserWarning, match="cpp_wrapper has no effect")
    with config.patch(cpp_wrapper=True), warned:
        got = torch.compile(lambda x: x.sin() + 1)(x)
    torch.testing.assert_close(got, x.sin() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(torch.compile(lambda x: x.cos() + 1)(x), x.cos() + 1)
