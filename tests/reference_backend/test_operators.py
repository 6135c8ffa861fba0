"""Factories, copies, views, operators, quantization, attention, recurrent layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_sequence

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:.*quantize"),
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]

FACTORIES = {
    "empty": lambda device: torch.empty(3, device=device).fill_(2),
    "zeros": lambda device: torch.zeros(3, device=device),
    "ones": lambda device: torch.ones(3, 4, device=device),
    "ones_like": lambda device: torch.ones_like(torch.empty(3, 4, device=device)),
    "full": lambda device: torch.full((3, 4), 5.0, device=device),
    "tensor": lambda device: torch.tensor((), device=device),
    "empty_strided": lambda device: torch.empty_strided((3, 4), (4, 1), device=device).fill_(1),
    "triu_indices": lambda device: torch.triu_indices(3, 3, device=device),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(device, name):
    made, expected = FACTORIES[name](device), FACTORIES[name]("cpu")
    assert made.device == device
    assert (made.dtype, made.stride()) == (expected.dtype, expected.stride())
    assert torch.equal(made.cpu(), expected)


def test_fake_tensors(device):
    with torch._subclasses.fake_tensor.FakeTensorMode():
        x = torch.empty(3, 3, device=device.type) + torch.empty(3, 3, device=device)
    assert (x.device, x.shape) == (device, (3, 3))


def test_copies(device):
    x = torch.rand(3, 4)
    moved = x.to(device)
    assert torch.equal(moved.add(2).cpu(), x + 2)
    clone = moved.clone()
    assert clone.data_ptr() != moved.data_ptr()
    assert moved.to(device).data_ptr() == moved.data_ptr()
    assert moved.to(device, copy=True).data_ptr() != moved.data_ptr()
    wide = torch.empty(3, 4, dtype=torch.float64, device=device)
    wide.copy_(moved)
    later = torch.empty(3, 4, device=device)
    later.copy_(moved, non_blocking=True)
    back = torch.empty(3, 4)
    back.copy_(moved)
    for copied in (clone, wide.float(), later, back):
        assert torch.equal(copied.cpu(), x)


def test_views(device):
    x = torch.arange(24.0, device=device).view(2, 3, 4)
    assert x.view(6, 4).data_ptr() == x.data_ptr()
    assert x.reshape(6, 4).shape == (6, 4)
    part = torch.as_strided(x, (2, 2), (4, 1), 1)
    assert part.tolist() == [[1, 2], [5, 6]]
    column = torch.tensor([[1], [2], [3]], device=device)
    wide = column.expand(3, 2)
    assert (wide.tolist(), wide.data_ptr()) == ([[1, 1], [2, 2], [3, 3]], column.data_ptr())
    assert torch.tensor([5.0], device=device).item() == 5
    for source in ((x,), (x.storage(), 0, x.size(), x.stride())):
        assert torch.equal(torch.empty(0, device=device).set_(*source), x)


def test_out_of_absolute_values(device):
    x = torch.randn(2, 2, 3)
    moved = x.to(device)
    assert torch.equal(moved.abs().cpu(), x.abs())
    assert torch.equal(moved.mT.abs().cpu(), x.mT.abs())
    for step in (2, 3):  # of the right size, and resized
        out, expected = torch.zeros(2, 2, 6, device=device), torch.zeros(2, 2, 6)
        for tensor, result in ((moved, out), (x, expected)):
            result = result[:, :, 0:6:step]
            if result.shape != tensor.shape:
                with pytest.warns(UserWarning, match="was resized"):
                    torch.abs(tensor, out=result)
            else:
                torch.abs(tensor, out=result)
        assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "mul", "sub"])
def test_structured_operators(device, name):
    x, y = torch.tensor([1.0, 5.0, 3.0]), torch.tensor([4.0, 2.0, 6.0])
    operator = getattr(torch, name)
    out = torch.empty(3, device=device)
    assert torch.equal(operator(x.to(device), y.to(device)).cpu(), operator(x, y))
    assert operator(x.to(device), y.to(device), out=out) is out
    assert torch.equal(out.cpu(), operator(x, y))


def test_lists_masks_and_indices(device):
    x = torch.randn(10)
    assert torch.equal(x.to(device).masked_select(x.to(device) > 0).cpu(), x[x > 0])
    x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]], device=device)
    y = torch.tensor([1, 0], device=device)
    assert x[y, y].tolist() == [3, 1]
    for total in torch._foreach_add((x, x), (x, x)):
        assert torch.equal(total, x * 2)
    assert torch.allclose((x / x).cpu(), torch.ones(2, 3))
    assert f"device='{device}'" in repr(torch.ones(20, device=device))


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8])
def test_quantization(device, dtype):
    x = torch.rand(3, 4, 5)
    quantized = torch.quantize_per_tensor(x.to(device), 0.1, 10, dtype)
    assert (quantized.device, quantized.dtype) == (device, dtype)
    assert (quantized.q_scale(), quantized.q_zero_point()) == (0.1, 10)
    expected = torch.quantize_per_tensor(x, 0.1, 10, dtype).dequantize()
    assert torch.equal(quantized.dequantize().cpu(), expected)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"attn_mask": True}], ids=str
)
def test_attention_in_half_precision(device, options):
    q, k, v = (torch.rand(2, 2, 64, 32, dtype=torch.float16, device=device) for _ in range(3))
    if "attn_mask" in options:
        options = {"attn_mask": torch.rand(2, 2, 64, 64, dtype=torch.float16, device=device)}
    out = functional.scaled_dot_product_attention(q, k, v, **options)
    assert (out.device, out.dtype, out.shape) == (device, torch.float16, q.shape)
    if "dropout_p" in options:
        return
    wide = {name: x.float().cpu() if name == "attn_mask" else x for name, x in options.items()}
    q, k, v = (x.float().cpu() for x in (q, k, v))
    expected = functional.scaled_dot_product_attention(q, k, v, **wide)
    torch.testing.assert_close(out.float().cpu(), expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 3}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True])
def test_long_short_term_memory(device, options, packed):
    torch.manual_seed(3)
    layer = nn.LSTM(10, 20, **options)
    x = torch.randn(3, 3, 10)
    if packed:
        x = pack_sequence([torch.randn(5, 10), torch.randn(3, 10), torch.randn(1, 10)])
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    state = torch.randn(rows, 3, 20), torch.randn(rows, 3, 20)
    expected, expected_state = layer(x, state)
    layer = layer.to(device)
    found, found_state = layer(x.to(device), tuple(part.to(device) for part in state))
    if packed:
        found, expected = found.data, expected.data
    for one, other in zip((found, *found_state), (expected, *expected_state), strict=True):
        assert one.device == device
        torch.testing.assert_close(one.cpu(), other)
