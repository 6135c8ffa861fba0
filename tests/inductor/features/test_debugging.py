"""Settings of Inductor with which one looks for what is wrong."""

import warnings

import pytest
import torch
from torch._inductor import config

from torch_outboard import _C

pytestmark = [
    pytest.mark.by_turns(3),
    pytest.mark.skipif(
        not _C.runs_code(0), reason="graphs become kernels where the device has a compiler"
    ),
]


def test_numbers_that_are_not_finite_stop_a_graph(device: torch.device):
    """Of each dtype, and in lists of tensors."""

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        each = [(x.float().log() + 1).softmax(-1).to(x.dtype) for x in given[:3]]
        return *each, *torch._foreach_mul(torch._foreach_log(given[3:]), 2.0)

    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    x = [torch.rand(3, 5, device=device).to(dtype) + 1 for dtype in dtypes]
    x += [torch.rand(size, device=device) + 1 for size in (3, 5000)]
    with config.patch(nan_asserts=True):
        compiled = torch.compile(function)
        torch.testing.assert_close(compiled(*x), function(*x))
        for index in range(len(x)):
            bad = [value - 10 if index == at else value for at, value in enumerate(x)]
            with pytest.raises(AssertionError, match="NaN or infinity in"):
                compiled(*bad)  # whose logarithm is none
        with pytest.raises(AssertionError):  # by Inductor's look at what a graph is given
            compiled(x[0] * float("nan"), *x[1:])


def test_code_around_kernels_stays_python(device: torch.device):
    x = torch.randn(4, 6, device=device)
    warned = pytest.warns(UserWarning, match="cpp_wrapper has no effect")
    with config.patch(cpp_wrapper=True), warned:
        got = torch.compile(lambda x: x.sin() + 1)(x)
    torch.testing.assert_close(got, x.sin() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(torch.compile(lambda x: x.cos() + 1)(x), x.cos() + 1)
