"""Fake tensors, and recurrent layers on packed sequences; the operator sweep has the rest."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]


def test_fake_tensors(device):
    with torch._subclasses.fake_tensor.FakeTensorMode():
        x = torch.empty(3, 3, device=device.type) + torch.empty(3, 3, device=device)
    assert (x.device, x.shape) == (device, (3, 3))


@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 3}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}],
    ids=str,
)
def test_long_short_term_memory(device, options):
    torch.manual_seed(3)
    layer = nn.LSTM(10, 20, **options)
    x = pack_sequence([torch.randn(5, 10), torch.randn(3, 10), torch.randn(1, 10)])
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    state = torch.randn(rows, 3, 20), torch.randn(rows, 3, 20)
    expected, expected_state = layer(x, state)
    layer = layer.to(device)
    found, found_state = layer(x.to(device), tuple(part.to(device) for part in state))
    pairs = zip((found.data, *found_state), (expected.data, *expected_state), strict=True)
    for one, other in pairs:
        assert one.device == device
        torch.testing.assert_close(one.cpu(), other)
