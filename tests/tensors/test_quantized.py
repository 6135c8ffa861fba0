"""Quantized tensors of the device are what they are on CPU."""

import copy
import io

import pytest
import torch
from torch.nn import functional

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:.*quantize"),
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]


def values():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(4))


def per_tensor(location, dtype=torch.quint8):
    return torch.quantize_per_tensor(values().to(location), 0.1, 10, dtype)


def per_channel(location):
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
    return torch.quantize_per_channel(values().to(location), scales, zeros, 0, torch.qint8)


MADE = {
    "quint8": per_tensor,
    "qint8": lambda location: per_tensor(location, torch.qint8),
    "qint32": lambda location: per_tensor(location, torch.qint32),
    "per channel": per_channel,
}


@pytest.fixture(params=MADE)
def make(request):
    return MADE[request.param]


def compare(found, expected, device):
    assert (found.device, found.dtype) == (device, expected.dtype)
    if not expected.is_quantized:
        torch.testing.assert_close(found.cpu(), expected)
        return
    assert found.qscheme() == expected.qscheme()
    assert torch.equal(found.int_repr().cpu(), expected.int_repr())
    assert torch.equal(found.dequantize().cpu(), expected.dequantize())


def test_made_moved_printed_and_saved(device, make):
    expected = make("cpu")
    for made in (make(device), expected.to(device)):
        compare(made, expected, device)
        compare(made.cpu(), expected, torch.device("cpu"))
    assert f"device='{device}'" in repr(made)
    compare(copy.deepcopy(made), expected, device)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    compare(torch.load(file), expected, device)


def test_what_a_quantizer_says(device):
    ours = per_tensor("cpu").to(device)
    assert (ours.q_scale(), ours.q_zero_point()) == (0.1, 10)
    ours = per_channel("cpu").to(device)
    assert ours.q_per_channel_axis() == 0
    assert ours.q_per_channel_scales().device == device
    assert torch.equal(ours.q_per_channel_zero_points().cpu(), torch.tensor([0, 1, 2]))
    packed = torch.quantize_per_tensor(torch.arange(8.0), 1.0, 0, torch.quint4x2)
    compare(packed.to(device).cpu(), packed, torch.device("cpu"))
    with pytest.raises(RuntimeError, match="not quantized per channel; call q_scale"):
        per_tensor(device).q_per_channel_axis()


def linear(x):
    weight = per_tensor("cpu", torch.qint8)
    return torch.ops.quantized.linear(x, torch.ops.quantized.linear_prepack(weight, None), 0.1, 0)


CALLS = {
    "linear": linear,
    "relu": torch.relu,
    "slice": lambda x: x[1:, ::2],
    "contiguous": lambda x: x.t().contiguous(),
    "cat": lambda x: torch.cat([x, x]),
    "index": lambda x: x[torch.tensor([2, 0], device=x.device)],
    "add": lambda x: torch.ops.quantized.add(x, x, 0.2, 3),
    "compare": lambda x: x > 0,
    "fill_": lambda x: x.clone().fill_(1.0),
    "pool": lambda x: functional.max_pool2d(x.view(1, 1, 3, 4), 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_operators(device, call):
    compare(CALLS[call](per_tensor(device)), CALLS[call](per_tensor("cpu")), device)


def test_copies(device):
    into = torch._empty_affine_quantized(
        [3, 4], scale=0.5, zero_point=1, dtype=torch.quint8, device=device
    )
    expected = torch._empty_affine_quantized([3, 4], scale=0.5, zero_point=1, dtype=torch.quint8)
    compare(into.copy_(values().to(device)), expected.copy_(values()), device)
    compare(into.copy_(per_tensor("cpu")), expected.copy_(per_tensor("cpu")), device)
    with pytest.raises(RuntimeError, match="call dequantize"):
        torch.empty(3, 4, device=device).copy_(into)
    with pytest.raises(RuntimeError, match="dtype and sizes must be the same"):
        into.copy_(per_tensor(device, torch.qint8))
