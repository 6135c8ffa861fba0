"""The typed kernels of csrc/cpu_kernels against CPU: values, layouts, out=, in-place."""

import gc
import itertools
import os
import warnings
from collections.abc import Callable

import pytest
import torch

from tests.device_kernels.on_device import difference
from tests.turns import is_its_turn, turn
from torch_outboard.scoreboard.answers import is_bad
from torch_outboard.scoreboard.comparison.differences import tree_difference
from torch_outboard.scoreboard.worker import TURN, Settings, WorkerProcess

# OpInfo entries whose operators have typed kernels, some of them only in the gradient.
NAMES = """acos acosh add addcdiv addcmul addmm addmv all amax amin any argmax argmin asin asinh
atan atan2 atanh baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor bmm ceil clamp clamp_max
clamp_min cos cosh cumsum div eq erf erfc exp exp2 expm1 fill floor fmod ge gt le lerp
linalg.vector_norm log log10 log1p log2 log_softmax lt masked_fill maximum mean minimum mm mul
native_layer_norm ne neg nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.cross_entropy nn.functional.elu nn.functional.gelu nn.functional.hardsigmoid
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.mish nn.functional.mse_loss
nn.functional.nll_loss nn.functional.relu nn.functional.scaled_dot_product_attention
nn.functional.silu nn.functional.softplus nn.functional.threshold norm pow reciprocal remainder
round rsqrt rsub sigmoid sign sin sinh softmax sqrt sub sum tan tanh trunc where"""


def test_entries_of_the_operator_database() -> None:
    """A sample of about one in sixteen, with variants and gradients, where memory is shared."""
    access = os.environ.get("OUTBOARD_HOST_ACCESS") or "shared"
    worker = WorkerProcess(Settings(access=access, turn=turn()), timeout=240)
    names = NAMES.split()
    try:
        entries = [
            entry
            for entry in worker.entries("operators", TURN)
            if (entry in names or entry.rpartition(".")[0] in names) and is_its_turn(entry, 16)
        ]
        answers = [worker.check("operators", entry, TURN) for entry in entries]
    finally:
        worker.close()
    wrong = {a.entry: (a.dtype, a.failures) for a in answers if is_bad(a)}
    assert not wrong


REALS = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


@pytest.mark.parametrize("name", ["add", "div", "pow", "remainder", "maximum", "eq"])
def test_type_promotion(name: str, device: torch.device) -> None:
    """Dtypes that differ are converted as on CPU, for whole tensors and zero-dimensional ones."""
    shapes = (((3, 4), (3, 4)), ((3, 4), ()), ((), (4,)), ((), ()))
    for left, right, (a_shape, b_shape) in itertools.product(REALS, REALS, shapes):
        a = torch.full(a_shape, 3).to(left)
        b = torch.full(b_shape, 2).to(right)
        assert difference(device, getattr(torch, name), a, b) is None, (a, b)


@pytest.mark.parametrize(
    "number", [2, 3.5, True, -1, 1 + 2j, 2**40, 0.1, 300, float("inf"), float("nan")], ids=str
)
def test_numbers(number: complex, device: torch.device) -> None:
    """Python numbers beside a tensor, on both sides, functional and in-place, compared and not."""
    functions = [
        lambda x: x + number, lambda x: number - x, lambda x: x * number, lambda x: x / number,
        lambda x: number / x, lambda x: x**number, lambda x: x == number, lambda x: x > number,
        lambda x: x.clone().add_(number), lambda x: x.clone().mul_(number),
        lambda x: x.clone().div_(number), lambda x: x.clone().clamp_(min=number),
        lambda x: x.clone().fill_(number),
    ]  # fmt: skip
    dtypes = (*REALS, torch.float16, torch.int32, torch.complex64)
    for shape, dtype in itertools.product(((5,), (), (0,), (2, 3)), dtypes):
        x = torch.arange(1, 7)[: torch.Size(shape).numel()].reshape(shape).to(dtype)
        for function in functions:
            assert difference(device, function, x) is None, x


@pytest.mark.parametrize("operator", [torch.add, torch.maximum])
def test_layouts(operator: Callable, device: torch.device) -> None:
    base = torch.randn(4, 6, 5, 3)
    views = [
        lambda t: t,
        lambda t: t.permute(3, 1, 2, 0).permute(3, 1, 2, 0),
        lambda t: t.to(memory_format=torch.channels_last),
        lambda t: t[:, ::2].repeat_interleave(2, 1),
        lambda t: t[:1].expand(4, 6, 5, 3),
        lambda t: t[0, 0, 0, 0],
        lambda t: t[:, :1, :, :1],
        lambda t: t.flip(1)[:, :, :, :],
        lambda t: torch.as_strided(t, (4, 6, 5, 3), (1, 1, 1, 1)),
    ]
    for first, second in itertools.product(views, repeat=2):
        assert difference(device, lambda t: operator(first(t), second(t)), base) is None


def test_out_that_shares_storage(device: torch.device) -> None:
    """An input that is also out=, where out= has to grow, keeps its values until they are read."""
    for d in ("cpu", device):
        storage = torch.arange(4.0, device=d)
        x = storage[:2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cumsum(storage.reshape(2, 2), 0, out=x)
        torch.testing.assert_close(x.cpu(), torch.tensor([[0.0, 1.0], [2.0, 4.0]]))


def test_output_comes_from_the_device_cache(device: torch.device, device_module: object) -> None:
    gc.collect()
    x = torch.ones(1 << 20, device=device)
    before = device_module.memory_allocated()
    for function in (
        torch.exp,
        torch.relu,
        lambda t: t + t,
        lambda t: t.reshape(1024, 1024).t() @ t.reshape(1024, 1024),
        lambda t: torch.softmax(t, 0),
    ):
        y = function(x)
        assert device_module.memory_allocated() - before == y.nbytes
        del y
    assert device_module.memory_allocated() == before
    out = torch.empty(0, device=device)
    assert torch.mm(x[:64].view(8, 8), x[:64].view(8, 8), out=out) is out
    assert out.untyped_storage().device.type == device.type
    torch.testing.assert_close(out.cpu(), torch.full((8, 8), 8.0))


def test_convolution_overrideable(device: torch.device) -> None:
    x, w, b = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3)
    settings = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    aten, mask = torch.ops.aten, [True, True, True]
    expected = aten.convolution(x, w, b, *settings)
    gradients = aten.convolution_backward(expected, x, w, [3], *settings, mask)
    there = [t.to(device) for t in (expected, x, w, b)]
    found = aten.convolution_overrideable(*there[1:], *settings)
    assert tree_difference(expected, found, device) is None
    found = aten.convolution_backward_overrideable(*there[:3], *settings, mask)
    assert tree_difference(gradients, found, device) is None
