"""The typed kernels of csrc/cpu_kernels against CPU: values, layouts, out=, in-place."""

from __future__ import annotations

import copy
import gc
import itertools
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_map_only

from torch_outboard import fallback

# OpInfo entries whose operators have typed kernels, some of them only in the gradient.
NAMES = {
    *[
        "acos",
        "acosh",
        "addcdiv",
        "addcmul",
        "addmm",
        "addmv",
        "all",
        "amax",
        "amin",
        "any",
        "argmax",
        "argmin",
        "asin",
        "asinh",
        "atan",
    ],
    *[
        "atan2",
        "atanh",
        "baddbmm",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "bmm",
        "ceil",
        "clamp",
    ],
    *[
        "clamp_max",
        "clamp_min",
        "cos",
        "cosh",
        "cumsum",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "fmod",
        "lerp",
    ],
    *[
        "log",
        "log10",
        "log1p",
        "log2",
        "log_softmax",
        "masked_fill",
        "maximum",
        "mean",
        "minimum",
        "mm",
        "mul",
        "neg",
    ],
    *["nn.functional.elu", "nn.functional.gelu", "nn.functional.hardsigmoid"],
    *["nn.functional.layer_norm", "nn.functional.leaky_relu", "nn.functional.mish"],
    *["nn.functional.mse_loss", "nn.functional.nll_loss", "nn.functional.relu"],
    *["nn.functional.silu", "nn.functional.softplus", "nn.functional.threshold"],
    *["nn.functional.cross_entropy", "nn.functional.scaled_dot_product_attention"],
    *["nn.functional.conv2d", "nn.functional.conv_transpose2d"],
    *[
        "add",
        "sub",
        "rsub",
        "div",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "fill",
        "native_layer_norm",
        "pow",
        "reciprocal",
        "remainder",
    ],
    *[
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "softmax",
        "sqrt",
        "sum",
        "tan",
        "tanh",
        "trunc",
        "where",
    ],
    *["linalg.vector_norm", "norm"],
}
ENTRIES = [op for op in op_db if op.name in NAMES]
DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# Of each kind of dtype, one is tested by default.
SLOW_DTYPES = {torch.float64, torch.float16, torch.uint8, torch.complex64}
CASES = [
    pytest.param(
        op,
        dtype,
        id=f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}",
        marks=[pytest.mark.slow] if dtype in SLOW_DTYPES else [],
    )
    for op in ENTRIES
    for dtype in DTYPES
    if dtype in op.supported_dtypes("cpu")
]


def to(device: object, value: object) -> object:
    """Tensors of a nested value as new tensors of the same strides on `device`."""

    def move(tensor: torch.Tensor) -> torch.Tensor:
        moved = torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device
        )
        if 0 in tensor.stride() or tensor.numel() == 0:
            moved = tensor.detach().to(device)
        else:
            moved.copy_(tensor.detach())
        return moved.requires_grad_(tensor.requires_grad)

    return tree_map_only(torch.Tensor, move, value)


def samples(op: OpInfo, dtype: torch.dtype, **keywords: object) -> Iterator[SampleInput]:
    torch.manual_seed(0)
    # Dropout draws other numbers on each device; test_random.py looks at it.
    certain = (
        s for s in op.sample_inputs("cpu", dtype, **keywords) if not s.kwargs.get("dropout_p")
    )
    yield from itertools.islice(certain, 40)


def attempt(function: Callable[[], object]) -> tuple[object, type[BaseException] | None]:
    try:
        return function(), None
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return None, type(error)


def assert_same(actual: object, expected: object) -> None:
    """Equal values, dtypes, strides, and on the right device."""

    def compare(a: object, e: object) -> None:
        if not isinstance(e, torch.Tensor):
            assert a == e or (a != a and e != e)
            return
        assert isinstance(a, torch.Tensor)
        assert a.device.type != "cpu"
        torch.testing.assert_close(a.detach().cpu(), e.detach(), equal_nan=True)
        assert e.numel() == 0 or a.stride() == e.stride()

    if isinstance(expected, (tuple, list)):
        assert isinstance(actual, (tuple, list))
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            compare(a, e)
    else:
        compare(actual, expected)


@pytest.mark.by_turns(5)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_values(op: OpInfo, dtype: torch.dtype, device: torch.device) -> None:
    for sample in samples(op, dtype):
        arguments = (sample.input, *sample.args)
        moved = to(device, arguments)
        keywords = to(device, sample.kwargs)
        expected, error = attempt(lambda: op(*arguments, **sample.kwargs))
        actual, raised = attempt(lambda: op(*moved, **keywords))
        assert raised == error, sample
        if error is None:
            assert_same(actual, expected)


@pytest.mark.by_turns(5)
@pytest.mark.parametrize(("op", "dtype"), [c for c in CASES if c.values[0].inplace_variant])
def test_in_place(op: OpInfo, dtype: torch.dtype, device: torch.device) -> None:
    in_place = op.inplace_variant
    for sample in samples(op, dtype):
        ours = to(device, sample.input)
        mine = copy.deepcopy(sample.input)
        moved = to(device, sample.args)
        keywords = to(device, sample.kwargs)
        expected, error = attempt(lambda: in_place(mine, *sample.args, **sample.kwargs))
        actual, raised = attempt(lambda: in_place(ours, *moved, **keywords))
        assert raised == error, sample
        if error is None:
            assert actual is ours
            assert_same(actual, expected)


def outputs_like(result: torch.Tensor) -> Iterator[torch.Tensor]:
    """What people pass as out=: right, empty, too small, strided, of other dtypes."""
    yield torch.empty_like(result)
    yield torch.empty(0, dtype=result.dtype)
    yield torch.empty((2, 3, 4), dtype=result.dtype)
    yield torch.empty((*result.shape, 2), dtype=result.dtype)[..., 0]
    if result.dim() > 1:
        yield torch.empty(result.shape[::-1], dtype=result.dtype).permute(
            *range(result.dim() - 1, -1, -1)
        )
    yield torch.empty(result.shape, dtype=torch.float64)
    yield torch.empty(result.shape, dtype=torch.int32)


@pytest.mark.by_turns(5)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [c for c in CASES if c.values[0].supports_out and c.values[1] in (torch.float32, torch.int64)],
)
def test_out(op: OpInfo, dtype: torch.dtype, device: torch.device) -> None:
    for sample in itertools.islice(samples(op, dtype), 6):
        arguments = (sample.input, *sample.args)
        moved = to(device, arguments)
        keywords = to(device, sample.kwargs)
        result, error = attempt(lambda: op(*arguments, **sample.kwargs))
        if error is not None or not isinstance(result, torch.Tensor):
            continue
        for out in outputs_like(result):
            if op.name == "nn.functional.gelu" and not out.is_contiguous():
                continue  # PyTorch's CPU kernel ignores the strides of out= here.
            out.zero_()
            ours = torch.empty_strided(
                out.size(), out.stride(), dtype=out.dtype, device=device
            ).zero_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, expected = attempt(lambda: op(*arguments, **sample.kwargs, out=out))
                actual, raised = attempt(lambda: op(*moved, **keywords, out=ours))
            assert raised == expected, (sample, out.dtype, out.shape)
            if expected is None:
                assert actual is ours
                assert_same(ours, out)


@pytest.mark.by_turns(5)
@pytest.mark.parametrize(
    "op", [pytest.param(op, id=op.formatted_name) for op in ENTRIES if op.supports_autograd]
)
def test_gradients(op: OpInfo, device: torch.device) -> None:
    if torch.float32 not in op.supported_backward_dtypes("cpu"):
        pytest.skip("PyTorch has no float32 gradient for this entry")
    for sample in itertools.islice(samples(op, torch.float32, requires_grad=True), 12):
        arguments = (sample.input, *sample.args)
        moved = to(device, arguments)
        keywords = to(device, sample.kwargs)
        gradients = []
        for a, k in ((arguments, sample.kwargs), (moved, keywords)):
            result = sample.output_process_fn_grad(op(*a, **k))
            results = list(result if isinstance(result, (tuple, list)) else [result])
            results = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
            leaves: list[torch.Tensor] = []
            tree_map_only(
                torch.Tensor, lambda t: leaves.append(t) if t.requires_grad else None, (a, k)
            )
            if not results or not leaves:
                break
            gradients.append(
                torch.autograd.grad(
                    results, leaves, [torch.ones_like(r) for r in results], allow_unused=True
                )
            )
        if len(gradients) == 2:
            for actual, expected in zip(gradients[1], gradients[0], strict=True):
                assert (actual is None) == (expected is None)
                if expected is not None:
                    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "remainder": torch.remainder,
    "maximum": torch.maximum,
    "eq": torch.eq,
    "lt": torch.lt,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("left", "right"),
    list(
        itertools.product(
            (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool),
            repeat=2,
        )
    ),
    ids=lambda d: str(d).removeprefix("torch."),
)
def test_type_promotion(
    name: str, left: torch.dtype, right: torch.dtype, device: torch.device
) -> None:
    """Dtypes that differ are converted as on CPU, for whole tensors and zero-dimensional ones."""
    operator = BINARY[name]
    for a_shape, b_shape in (((3, 4), (3, 4)), ((3, 4), ()), ((), (4,)), ((), ())):
        a = torch.ones(a_shape).mul(3).to(left)
        b = torch.ones(b_shape).mul(2).to(right)
        expected, error = attempt(lambda: operator(a, b))
        actual, raised = attempt(lambda: operator(a.to(device), b.to(device)))
        assert raised == error
        if error is None:
            assert_same(actual, expected)


@pytest.mark.parametrize(
    "number", [2, 3.5, True, -1, 1 + 2j, 2**40, 0.1, 300, float("inf"), float("nan")], ids=str
)
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
    ids=lambda d: str(d).removeprefix("torch."),
)
def test_numbers(number: complex, dtype: torch.dtype, device: torch.device) -> None:
    """Python numbers beside a tensor, on both sides, functional and in-place, compared and not."""
    functions = [
        lambda x: x + number,
        lambda x: number - x,
        lambda x: x * number,
        lambda x: x / number,
        lambda x: number / x,
        lambda x: x**number,
        lambda x: x == number,
        lambda x: x > number,
        lambda x: x.clone().add_(number),
        lambda x: x.clone().mul_(number),
        lambda x: x.clone().div_(number),
        lambda x: x.clone().clamp_(min=number),
        lambda x: x.clone().fill_(number),
    ]
    for shape in ((5,), (), (0,), (2, 3)):
        x = torch.arange(1, 1 + max(1, int(torch.Size(shape).numel())))[: torch.Size(shape).numel()]
        x = x.reshape(shape).to(dtype)
        for index, function in enumerate(functions):
            expected, error = attempt(lambda: function(x))
            actual, raised = attempt(lambda: function(x.to(device)))
            assert raised == error, (index, shape)
            if error is None:
                assert_same(actual, expected)


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "eq"])
def test_layouts(name: str, device: torch.device) -> None:
    operator = BINARY[name]
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
    there = base.to(device)
    for first, second in itertools.product(views, repeat=2):
        assert_same(operator(first(there), second(there)), operator(first(base), second(base)))


def test_out_that_shares_storage(device: torch.device) -> None:
    """An input that is also out=, where out= has to grow, keeps its values until they are read."""
    for d in ("cpu", device):
        storage = torch.arange(4.0, device=d)
        x = storage[:2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cumsum(storage.reshape(2, 2), 0, out=x)
        torch.testing.assert_close(x.cpu(), torch.tensor([[0.0, 1.0], [2.0, 4.0]]))


def test_resized_out_is_on_the_device(device: torch.device) -> None:
    out = torch.empty(0, device=device)
    result = torch.mm(torch.ones(8, 8, device=device), torch.ones(8, 8, device=device), out=out)
    assert result is out
    assert out.untyped_storage().device.type == device.type
    torch.testing.assert_close(out.cpu(), torch.full((8, 8), 8.0))


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


def test_report_sees_direct_kernels(device: torch.device) -> None:
    """With the report on, typed kernels take the boxed way and are counted."""
    x = torch.ones(3, device=device)
    with fallback.report() as report:
        _ = x + x
    assert [(row.op, row.calls) for row in report.rows] == [("aten::add.Tensor", 1)]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize("implementation", ["fused", "foreach", "single"])
def test_optimizers(name: str, implementation: str, device: torch.device) -> None:
    parameters = []
    for d in ("cpu", device):
        torch.manual_seed(0)
        made = [torch.randn(shape).to(d).requires_grad_() for shape in ((3, 4), (5,), ())]
        optimizer = getattr(torch.optim, name)(
            made,
            lr=0.1,
            weight_decay=0.01,
            fused=implementation == "fused",
            **({} if implementation == "fused" else {"foreach": implementation == "foreach"}),
            **({"momentum": 0.9} if name == "SGD" else {}),
        )
        for step in range(4):
            for p in made:
                p.grad = torch.full_like(p, 0.1 * (step + 1))
            optimizer.step()
        parameters.append([p.detach().cpu() for p in made])
    for actual, expected in zip(parameters[1], parameters[0], strict=True):
        torch.testing.assert_close(actual, expected)


def test_attention_takes_the_flash_kernel(device: torch.device) -> None:
    from torch.profiler import ProfilerActivity, profile

    q, k, v = (torch.randn(2, 3, 16, 8, device=device, requires_grad=True) for _ in range(3))
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        result = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result.sum().backward()
    names = {event.name for event in recorded.events()}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    hosts = [t.detach().cpu().requires_grad_() for t in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*hosts, is_causal=True)
    expected.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    for ours, theirs in zip((q, k, v), hosts, strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_double_backward(transposed: bool, device: torch.device) -> None:
    torch.manual_seed(0)
    function = torch.nn.functional.conv_transpose2d if transposed else torch.nn.functional.conv2d
    inputs = tuple(
        torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)
        for shape in ((1, 2, 4, 4), (2, 2, 3, 3), (2,))
    )
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_convolution_overrideable(device: torch.device) -> None:
    x, w, b = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3)
    settings = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    expected = torch.ops.aten.convolution(x, w, b, *settings)
    there = [t.to(device) for t in (x, w, b)]
    assert_same(torch.ops.aten.convolution_overrideable(*there, *settings), expected)
    gradient = torch.ones_like(expected)
    mask = [True, True, True]
    assert_same(
        torch.ops.aten.convolution_backward_overrideable(
            gradient.to(device), there[0], there[1], *settings, mask
        ),
        torch.ops.aten.convolution_backward(gradient, x, w, [3], *settings, mask),
    )
