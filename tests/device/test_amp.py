"""Automatic mixed precision: the cast policies, autocast and the gradient scaler."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists

pytestmark = pytest.mark.separate

DTYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def lists(device) -> AutocastTestLists:
    return AutocastTestLists(device)


def call(name: str, arguments, module=torch, keywords=None):
    function = getattr(module, name, None)
    if function is None:
        function = getattr(torch.Tensor, name)
    return function(*arguments, **(keywords or {}))


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
def test_operators_of_the_lists(lists, device, policy, dtype, expected):
    """Runs each under autocast and looks at the dtype of the result."""
    module = torch._C._nn if policy.startswith("nn") else torch
    entries = [entry for entry in getattr(lists, policy) if entry[0] not in EXCLUDED]
    for name, arguments, *more in entries:
        last = more[0] if more else None
        keywords = last if isinstance(last, dict) else {}
        wanted = last if isinstance(last, torch.dtype) else expected
        with torch.autocast(device.type, dtype=dtype):
            result = call(name, arguments, module, keywords)
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_those_of_casting_by_hand(device, dtype):
    torch.manual_seed(0)
    a, b = (torch.randn(16, 16, device=device) for _ in range(2))
    with torch.autocast(device.type, dtype=dtype):
        product = a @ b
        total = product.sum()
        contracted = torch.einsum("ij,jk->ik", a, b)
    torch.testing.assert_close(product, a.to(dtype) @ b.to(dtype))
    torch.testing.assert_close(contracted, product)
    assert total.dtype == torch.float32


def test_state_functions(device, device_module):
    assert device_module.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert not device_module.is_autocast_enabled()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert device_module.is_autocast_enabled()
        assert device_module.get_autocast_dtype() == torch.bfloat16
        with torch.autocast(device.type, enabled=False):
            assert not device_module.is_autocast_enabled()
        with device_module.amp.autocast(dtype=torch.float16):
            assert device_module.get_autocast_dtype() == torch.float16
    assert not torch.is_autocast_enabled(device.type)
    device_module.set_autocast_enabled(True)
    assert torch.is_autocast_enabled(device.type)
    device_module.set_autocast_enabled(False)


def test_unsupported_dtype_warns_and_disables(device):
    with (
        pytest.warns(UserWarning, match="not supported"),
        torch.autocast(device.type, dtype=torch.float64) as context,
    ):
        assert not context._enabled


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


def test_attention_under_autocast(device):
    q = torch.randn(2, 4, 16, 8, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        result = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert result.dtype == torch.bfloat16


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
