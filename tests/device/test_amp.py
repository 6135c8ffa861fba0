"""Automatic mixed precision: what is cast, policies of one's own, and the gradient scaler."""

from collections.abc import Iterator

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists

from tests.support import run_python

DTYPES = [torch.float16, torch.bfloat16]


# Entries of PyTorch's lists that need a library of CUDA's, or (einsum) are of another form.
EXCLUDED = {"cudnn_convolution", "cudnn_convolution_transpose", "_cudnn_rnn", "einsum"}


# Lists of PyTorch's, the dtype of autocast and that of the results, where an entry names no other.
CASES = [
    *(("torch_fp16", dtype, dtype) for dtype in DTYPES),
    *(("torch_fp32", dtype, torch.float32) for dtype in DTYPES),
    ("nn_fp16", torch.float16, torch.float16),
    ("nn_fp32", torch.float16, torch.float32),
    ("torch_need_autocast_promote", torch.float16, torch.float32),
]


@pytest.mark.parametrize(("policy", "dtype", "expected"), CASES)
def test_operators_of_the_lists(device, policy, dtype, expected):
    """Runs each under autocast and looks at the dtype of the result."""
    module = torch._C._nn if policy.startswith("nn") else torch
    entries = getattr(AutocastTestLists(device), policy)
    for name, arguments, *more in entries:
        if name in EXCLUDED:
            continue
        last = more[0] if more else None
        keywords = last if isinstance(last, dict) else {}
        wanted = last if isinstance(last, torch.dtype) else expected
        function = getattr(module, name, None) or getattr(torch.Tensor, name)
        with torch.autocast(device.type, dtype=dtype):
            result = function(*arguments, **keywords)
        first = result[0] if isinstance(result, (tuple, list)) else result
        assert first.dtype == wanted, f"{name}: {first.dtype}, not {wanted}"


def test_binary_cross_entropy_is_refused(device):
    x = torch.rand(4, device=device)
    with (
        torch.autocast(device.type),
        pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"),
    ):
        torch.nn.functional.binary_cross_entropy(x, x)
    torch.nn.functional.binary_cross_entropy(x, x)


def test_values_are_those_of_casting_by_hand(device):
    torch.manual_seed(0)
    a, b = (torch.randn(16, 16, device=device) for _ in range(2))
    q = torch.randn(2, 4, 16, 8, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        product = a @ b
        assert product.sum().dtype == torch.float32
        contracted = torch.einsum("ij,jk->ik", a, b)
        attention = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert attention.dtype == torch.bfloat16
    torch.testing.assert_close(product, a.bfloat16() @ b.bfloat16())
    torch.testing.assert_close(contracted, product)


def test_state_functions(device, device_module):
    assert device_module.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert not device_module.is_autocast_enabled()
    with device_module.amp.autocast(dtype=torch.bfloat16):
        assert device_module.is_autocast_enabled()
        assert device_module.get_autocast_dtype() == torch.bfloat16
        with torch.autocast(device.type, enabled=False):
            assert not device_module.is_autocast_enabled()
    device_module.set_autocast_enabled(True)
    assert torch.is_autocast_enabled(device.type)
    device_module.set_autocast_enabled(False)
    with (
        pytest.warns(UserWarning, match="not supported"),
        torch.autocast(device.type, dtype=torch.float64) as context,
    ):
        assert not context._enabled


FIRST_AUTOCAST = """
import sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
device = sys.argv[1]
if sys.argv[2:] == ["fake"]:
    with FakeTensorMode(), torch.autocast(device, dtype=torch.bfloat16):
        x = torch.empty(2, 2, device=device)
        print((x @ x).dtype, (x + x).dtype)
    sys.exit()
x = torch.ones(2, 2, device=device)
with torch.autocast(f"{device}:0", dtype=torch.bfloat16):
    print((x @ x).dtype, (x + x).dtype)
"""


@pytest.mark.parametrize("arguments", [(), ("fake",)], ids=["index", "fake"])
def test_first_autocast_of_a_process(device, arguments):
    """With an index in the name of the device, or with fake tensors alone."""
    # A process of its own: in this one autocast is registered.
    assert run_python(FIRST_AUTOCAST, device.type, *arguments).split() == [
        "torch.bfloat16",
        "torch.float32",
    ]


def test_weights_are_cast_once(device):
    weight = torch.randn(8, 8, device=device, requires_grad=True)
    x = torch.randn(8, 8, device=device)
    with torch.autocast(device.type):
        first = torch.mm(x, weight).grad_fn.next_functions[1][0]
        second = torch.mm(x, weight).grad_fn.next_functions[1][0]
    assert first is second


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_under_autocast(device, cell):
    torch.manual_seed(0)
    layer = cell(4, 8, num_layers=2, batch_first=True).to(device)
    x = torch.randn(3, 5, 4, device=device)
    expected, _ = layer(x)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        result, _ = layer(x)
        result.float().sum().backward()
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", DTYPES)
def test_promoting_operators_keep_a_dtype_that_all_tensors_have(device, dtype):
    x = torch.ones(2, 3, device=device, dtype=dtype)
    with torch.autocast(device.type, dtype=dtype):
        results = (
            torch.cat([x, x]), torch.stack([x, x]), torch.addcmul(x, x, x), torch.atan2(x, x),
            torch.cross(x, x, dim=1),
        )  # fmt: skip
        assert {result.dtype for result in results} == {dtype}
        assert torch.cat([x, x.float()]).dtype == torch.float32


# Operators of a library that belongs to CUDA; the last one is in builds for CUDA alone.
CUDA_ALONE = {"aten::cudnn_convolution", "aten::cudnn_convolution_transpose"}
if torch.version.cuda is not None:
    CUDA_ALONE.add("aten::_cudnn_rnn")


def operators_with_policy(key: str) -> set[str]:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name for name in torch._C._dispatch_get_all_op_names() if has_kernel(name, key)}


def test_operators_with_a_policy_are_those_of_cuda(device):
    with torch.autocast(device.type):
        pass
    ours = {name for name in operators_with_policy("AutocastPrivateUse1") if name[:6] == "aten::"}
    assert ours ^ operators_with_policy("AutocastCUDA") == CUDA_ALONE


# ---- Policies of one's own


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    library = torch.library.Library("policy_tests", "FRAGMENT")
    for name in ("mix", "lowered", "precise", "promoted", "changed"):
        library.define(f"{name}(Tensor x, Tensor? y, Tensor[] z, float scale=1.0) -> Tensor")

        def kernel(x, y, z, scale=1.0):
            dtypes = {t.dtype for t in [x, *([] if y is None else [y]), *z]}
            assert len(dtypes) == 1, dtypes
            total = sum([*([] if y is None else [y]), *z], start=x)
            return total if scale == 1 else total * scale

        library.impl(name, kernel, "CompositeImplicitAutograd")
    library.define("add_into(Tensor(a!) x, Tensor y) -> ()")
    yield library
    library._destroy()


@pytest.fixture
def register_policy(device_module):
    return device_module.amp.register_policy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("name", "policy"),
    [("lowered", "lower_precision_fp"), ("precise", "fp32"), ("promoted", "promote")],
)
def test_an_operators_own_policy(device, library, register_policy, name, policy, dtype):
    register_policy(f"policy_tests::{name}", policy)
    op = getattr(torch.ops.policy_tests, name)
    low, single = (torch.ones(3, device=device, dtype=d) for d in (dtype, torch.float32))
    double = torch.ones(3, device=device, dtype=torch.float64)
    expected = {
        "lower_precision_fp": (dtype, dtype, dtype),
        "fp32": (torch.float32,) * 3,
        "promote": (dtype, torch.float32, torch.float32),
    }[policy]
    with torch.autocast(device.type, dtype=dtype):
        results = (op(low, None, []), op(low, single, [low]), op(low, None, [single], 2.0))
        assert tuple(result.dtype for result in results) == expected
        assert results[2].tolist() == [4.0] * 3
        # float64 and integers stay, and so do tensors of other devices.
        assert op(double, None, []).dtype == torch.float64
        assert op(torch.ones(3, dtype=torch.int64, device=device), None, []).dtype == torch.int64
        with torch.autocast(device.type, enabled=False):
            assert op(low, None, []).dtype == dtype
        assert op(torch.ones(3), None, []).dtype == torch.float32
    assert op(single, None, []).dtype == torch.float32


def test_a_later_policy_replaces_the_first(device, library, register_policy):
    op = torch.ops.policy_tests.changed
    x = torch.ones(3, device=device)
    for policy, dtype in (("lower_precision_fp", torch.float16), ("fp32", torch.float32)) * 2:
        register_policy(op.default, policy)
        with torch.autocast(device.type, dtype=torch.float16):
            assert op(x.half(), None, []).dtype == dtype


def test_gradients_pass_the_casts_and_weights_are_cast_once(device, library, register_policy):
    register_policy("policy_tests::mix", "lower_precision_fp")
    weight = torch.ones(3, device=device, requires_grad=True)
    x = torch.ones(3, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        first = torch.ops.policy_tests.mix(x, weight, [])
        product = torch.mm(weight.view(1, 3), x.view(3, 1))
        second = torch.ops.policy_tests.mix(x, weight, [])
    (first.sum() + second.float().sum() + product.float().sum()).backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.tolist() == [3.0] * 3


def test_what_can_have_no_policy(library, register_policy):
    with pytest.raises(ValueError, match="there is no autocast policy 'half'"):
        register_policy("policy_tests::mix", "half")
    for name in ("policy_tests::nothing", "nonsense", "::", ""):
        with pytest.raises(ValueError, match="does not exist; define it first"):
            register_policy(name, "fp32")
    with pytest.raises(ValueError, match="writes to its arguments"):
        register_policy("policy_tests::add_into", "fp32")
    with pytest.raises(ValueError, match="has an autocast policy already"):
        register_policy("aten::mm", "fp32")


# ---- The gradient scaler


def with_infinite_gradient(where: torch.device, fused: bool):
    """Two optimizers share a scaler; the gradients of the first are infinite."""
    parameters = [torch.ones(4, device=where, requires_grad=True) for _ in range(2)]
    optimizers = [torch.optim.Adam([p], lr=0.5, fused=fused) for p in parameters]
    scaler = torch.amp.GradScaler(where.type, init_scale=4.0, growth_interval=1)
    unscaled, scales = [], []
    for factor in (float("inf"), 1.0):
        scaler.scale(parameters[0].sum() * factor + parameters[1].sum()).backward()
        scaler.unscale_(optimizers[1])
        unscaled.append(parameters[1].grad.tolist())
        for each in optimizers:
            scaler.step(each)
            each.zero_grad()
        scaler.update()
        scales.append(scaler.get_scale())
    return unscaled, scales, [p.detach().cpu() for p in parameters]


@pytest.mark.parametrize("fused", [False, True])
def test_one_optimizers_infinity_skips_its_step_alone(device, fused):
    expected = with_infinite_gradient(torch.device("cpu"), fused)
    found = with_infinite_gradient(device, fused)
    assert found[:2] == expected[:2]
    assert found[1] == [2.0, 4.0]
    torch.testing.assert_close(found[2], expected[2])
