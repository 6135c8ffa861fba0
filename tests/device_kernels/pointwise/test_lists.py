"""Operators over lists of tensors: values as on CPU, in few launches.

Also fused optimizers, and what torch.amp.GradScaler does.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from tests.device_kernels.launches import launches
from tests.device_kernels.on_device import assert_as_on_cpu, compare
from torch_outboard import _C

Tensors = list[torch.Tensor]

SIZES = [0, 1, 7, 1000, 100_000, 1, 33, 4096, 0, 513]
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
MANY = 40  # tensors where launches are counted
UNSCALE = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_


def tensors(dtype: torch.dtype, seed: int = 0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    made = [torch.rand(n, generator=generator) + 0.5 for n in SIZES]
    return [x.to(dtype) for x in [*made, torch.tensor(0.75), torch.rand(5, 40).mT.contiguous().mT]]


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes its first argument, as one that returns it."""

    def run(first: Tensors, *others: Any) -> Tensors:
        function(first, *others)
        return first

    return run


NUMBERS = [0.25 * (k + 1) for k in range(len(SIZES) + 2)]
CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, z: torch._foreach_add(x, y, alpha=0.5),
    "add_": written(lambda x, y, z: torch._foreach_add_(x, y, alpha=0.5)),
    "add_ of itself": written(lambda x, y, z: torch._foreach_add_(x, x)),
    "mul by a number": lambda x, y, z: torch._foreach_mul(x, 1.5),
    "mul_ by numbers": written(lambda x, y, z: torch._foreach_mul_(x, NUMBERS)),
    "mul_ by a tensor": written(lambda x, y, z: torch._foreach_mul_(x, y[1].reshape(()))),
    "div by a tensor of CPU": lambda x, y, z: torch._foreach_div(x, torch.tensor(3.0)),
    "addcdiv_ by numbers": written(lambda x, y, z: torch._foreach_addcdiv_(x, y, z, NUMBERS)),
    "addcmul": lambda x, y, z: torch._foreach_addcmul(x, y, z, value=0.125),
    "lerp_": written(lambda x, y, z: torch._foreach_lerp_(x, y, 0.25)),
    "sqrt": lambda x, y, z: torch._foreach_sqrt(x),
    "maximum_": written(lambda x, y, z: torch._foreach_maximum_(x, y)),
    "zero_": written(lambda x, y, z: torch._foreach_zero_(x)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_values(device, name, dtype):
    operands = [tensors(dtype, seed) for seed in range(3)]
    compare(device, CALLS[name], *operands, support=frozenset())


def test_layouts_and_dtypes_that_differ(device):
    """Tensors that take no part in a launch of many, and several kinds in one list."""

    def run(x: Tensors, y: Tensors) -> list[Any]:
        results = torch._foreach_add(x, y, alpha=2)
        torch._foreach_mul_(x, y)
        return [results, x, y]

    sizes = [(6, 6), (6,), (5, 5), (8, 3, 2), (9,), (7,), (2, 3, 4, 5), (300,)]
    kinds = [torch.float32, torch.float16, torch.int64, torch.float32] * 2
    given = list(zip(sizes, kinds, strict=True))
    x, y = ([(torch.randn(s) * 9).to(kind) for s, kind in given] for _ in range(2))
    x[1], y[2] = x[1].repeat_interleave(2)[::2], y[2].mT
    x[6] = x[6].contiguous(memory_format=torch.channels_last)
    y[6] = y[6].contiguous(memory_format=torch.channels_last)
    assert_as_on_cpu(device, run, x, y)


def test_tensors_that_share_memory(device):
    """They are updated one after the other."""
    run = written(lambda x, y: torch._foreach_addcmul_(x, y, y))
    x, y, z = (torch.randn(64) for _ in range(3))
    for lists in (
        ([x, x, z, x], [y, y, y, y]),
        ([x[:40], z[:40], x[20:60]], [y[:40]] * 3),
        ([x, z], [y, x]),
        ([z, x], [x, y]),
    ):
        assert_as_on_cpu(device, run, *lists)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("order", [1, 2, float("inf"), 3])
def test_norms(device, dtype, order):
    x = [t for t in tensors(dtype) if t.numel() > 0 or order == 2]
    torch._foreach_norm([t.to(device) for t in x], order)  # loads what serves lists
    # CPU adds up float32 one after the other.
    tolerances = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    norms = partial(torch._foreach_norm, ord=order)
    for last in (0.5, float("nan"), float("inf")):  # one element of one tensor among many
        x[3][-1] = last
        compare(device, norms, x, support={"aten::linalg_vector_norm"}, **tolerances)


def adamw(x: list[Tensors]) -> object:
    steps = x[4]
    settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}
    return torch.ops.aten._fused_adamw_(
        *x[:4], [], steps, amsgrad=False, maximize=False, **settings
    )


@pytest.mark.parametrize(
    ("function", "at_most"),
    [
        (lambda x: torch._foreach_mul_(x[0], 0.5), 1),
        (lambda x: torch._foreach_add_(x[0], x[1]), 2),
        (lambda x: torch._foreach_add(x[0], x[1]), 3),
        (lambda x: torch._foreach_addcdiv_(x[0], x[1], x[2], [0.5] * MANY), 3),
        (lambda x: torch._foreach_mul_(x[0], x[1][0].sum()), 2),
        (adamw, 4),
        (lambda x: torch.cat(x[0]), 2),
        (lambda x: UNSCALE(x[0], x[4][0], x[4][1]), 1),
    ],
    ids=["mul_", "add_", "add", "addcdiv_", "mul_ by a tensor", "fused AdamW", "cat", "unscale"],
)
def test_few_launches(device, function, at_most):
    """Where a pointer takes 16 of 1024 bytes; in each the tensors may have any sizes."""
    lists = [[torch.rand(1 + 97 * k % 1500, device=device) for k in range(MANY)] for _ in range(4)]
    steps = [torch.ones((), device=device) for _ in range(MANY)]
    call = partial(function, [*lists, steps])
    counts = launches(device, call)
    assert counts["many"] == counts.total() - counts["along"] - counts["combine"], counts
    assert counts["many"] <= at_most, counts


def clip(parameters: list[torch.nn.Parameter], order: float) -> Callable[[], object]:
    """Norms, which are stacked, and one factor for all gradients."""
    return partial(torch.nn.utils.clip_grad_norm_, parameters, 1.0, norm_type=order)


@pytest.mark.parametrize(
    ("make", "at_most"),
    [
        # By default optimizers take lists, as on CUDA.
        (lambda p: torch.optim.AdamW(p).step, 20),
        (lambda p: torch.optim.AdamW(p, fused=True).step, 6),
        (lambda p: torch.optim.Adam(p, amsgrad=True).step, 25),
        (lambda p: torch.optim.SGD(p, momentum=0.9).step, 6),
        (lambda p: torch.optim.SGD(p, momentum=0.9, fused=True).step, 3),
        (lambda p: clip(p, 2.0), 14),
        (lambda p: clip(p, float("inf")), 14),
    ],
)
def test_few_launches_of_a_step(device, make, at_most):
    parameters = [torch.nn.Parameter(torch.ones(1 + 3 * k, device=device)) for k in range(MANY)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    assert launches(device, make(parameters)).total() <= at_most


def test_a_long_list_takes_one_program(device):
    """Also its last tensors, which fill no launch."""
    tensors = [torch.rand(5) + n for n in range(300)]
    before = _C.program_counts()
    results = torch._foreach_lgamma([tensor.to(device) for tensor in tensors])
    after = _C.program_counts()
    assert sum(after[:2]) - sum(before[:2]) <= 1
    for result, tensor in zip(results, tensors, strict=True):
        torch.testing.assert_close(result.cpu(), tensor.lgamma())


# ---- optimizers and scales of gradients


OPTIMIZERS = [
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    (torch.optim.SGD, {}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.Adam, {"amsgrad": True, "maximize": True, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"weight_decay": 0.1}),
    (torch.optim.AdamW, {"amsgrad": True, "betas": (0.0, 0.999)}),
    (torch.optim.Adagrad, {"lr_decay": 0.01, "weight_decay": 0.1}),
]
PARAMETER_SIZES = [(1,), (7, 5), (300,), (3, 4, 5)]


@pytest.mark.parametrize(("scale", "found"), [(4.0, 0.0), (None, 0.0), (4.0, 1.0), (None, 1.0)])
@pytest.mark.parametrize(("make", "settings"), OPTIMIZERS)
def test_fused_with_a_scaler(device, make, settings, scale, found):
    """The first step without one, then with gradients to divide, in a step that may be none."""
    starts, gradients = ([torch.randn(s) for s in PARAMETER_SIZES] for _ in range(2))

    def run(scale: torch.Tensor | None, found: torch.Tensor) -> list[Any]:
        parameters = [torch.nn.Parameter(x.to(found.device, copy=True)) for x in starts]
        optimizer: Any = make(parameters, lr=0.1, fused=True, **settings)
        for step in range(3):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = (gradient * (1 + step)).to(found.device)
            if step > 0:
                optimizer.grad_scale, optimizer.found_inf = scale, found
            optimizer.step()
        state = [value for p in parameters for value in optimizer.state[p].values()]
        return [*parameters, *(p.grad for p in parameters), *state]

    given = None if scale is None else torch.tensor(scale), torch.tensor(found)
    assert any("_fused_" in op for op in compare(device, run, *given))


@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan"), float("-inf")], ids=str)
def test_unscale(device, wrong):
    """One element of one tensor among many."""
    gradients = [torch.randn(()), torch.randn(0), torch.randn(60, 70).mT]
    gradients += [torch.randn(1 + 37 * k) for k in range(30)]
    if wrong is not None:
        gradients[20][200] = wrong

    def run(scale: torch.Tensor, *gradients: torch.Tensor):
        found = torch.zeros(1, device=scale.device)
        halves = [x.bfloat16() for x in gradients]
        UNSCALE(gradients, found, scale)
        before = found.clone()
        UNSCALE(halves, found, scale)
        return before, found, *gradients, *halves

    assert_as_on_cpu(device, run, torch.tensor(2.0**-20), *gradients)


def test_update_of_the_scale(device):
    def run(scale: torch.Tensor, steps: torch.Tensor, found: torch.Tensor):
        assert torch.ops.aten._amp_update_scale_(scale, steps, found, 2.0, 0.5, 3) is scale
        return scale, steps

    for scale, steps, found in ((8.0, 0, 0.0), (8.0, 2, 0.0), (8.0, 2, 1.0), (3e38, 2, 0.0)):
        counted = torch.tensor([steps], dtype=torch.int32)
        state = torch.tensor([scale]), counted, torch.tensor([found])
        assert_as_on_cpu(device, run, *state)
