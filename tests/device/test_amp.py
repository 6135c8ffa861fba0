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


def names(policy: str) -> list[str]:
    """The operators of one of PyTorch's lists; made on CPU, since only names are needed."""
    entries = getattr(AutocastTestLists(torch.device("cpu")), policy)
    return sorted({entry[0] for entry in entries} - EXCLUDED)


def check(
    lists: AutocastTestLists,
    device: torch.device,
    policy: str,
    name: str,
    dtype: torch.dtype,
    expected: torch.dtype,
) -> None:
    """Runs the entries of one operator under autocast and looks at the dtype of the result."""
    for entry in getattr(lists, policy):
        if entry[0] != name:
            continue
        arguments = entry[1]
        keywords = entry[2] if len(entry) > 2 and isinstance(entry[2], dict) else {}
        wanted = entry[2] if len(entry) > 2 and isinstance(entry[2], torch.dtype) else expected
        module = torch._C._nn if policy.startswith("nn") else torch
        with torch.autocast(device.type, dtype=dtype):
            result = call(name, arguments, module, keywords)
        first = result[0] if isinstance(result, (tuple, list)) else result
        assert first.dtype == wanted, f"{name}: {first.dtype}, not {wanted}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", names("torch_fp16"))
def test_lower_precision(lists, device, name, dtype):
    check(lists, device, "torch_fp16", name, dtype, dtype)


@pytest.mark.parametrize("name", names("nn_fp16"))
def test_lower_precision_nn(lists, device, name):
    check(lists, device, "nn_fp16", name, torch.float16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", names("torch_fp32"))
def test_float32(lists, device, name, dtype):
    check(lists, device, "torch_fp32", name, dtype, torch.float32)


@pytest.mark.parametrize("name", names("nn_fp32"))
def test_float32_nn(lists, device, name):
    check(lists, device, "nn_fp32", name, torch.float16, torch.float32)


@pytest.mark.parametrize("name", names("torch_need_autocast_promote"))
def test_widest(lists, device, name):
    check(lists, device, "torch_need_autocast_promote", name, torch.float16, torch.float32)


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


def network(device) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(10, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 1)
    ).to(device)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training_with_scaler(device, optimizer):
    model = network(device)
    optimizer = optimizer(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device=device.type, init_scale=1024.0)
    x = torch.randn(64, 10, device=device)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_scaler_skips_steps_with_infinite_gradients(device):
    model = network(device)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.get_device_module(device).amp.GradScaler(init_scale=8.0, growth_interval=2)
    loss = model(torch.randn(4, 10, device=device)).sum() * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0
    for p, old in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), old, rtol=0, atol=0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(4, 10, device=device)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 8.0
    state = scaler.state_dict()
    restored = torch.amp.GradScaler(device.type)
    restored.load_state_dict(state)
    assert restored.get_scale() == 8.0


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
