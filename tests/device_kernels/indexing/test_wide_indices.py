"""Kernels with 64-bit indices: tensors of more than 2^31 elements, of 2 GiB each."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.conftest import ways_of
from torch_outboard import fallback

pytestmark = pytest.mark.slow
COUNT = 2**31 + 77


@pytest.fixture(scope="module")
def large(device):
    try:
        return torch.zeros(COUNT, dtype=torch.int8, device=device)
    except torch.OutOfMemoryError as error:
        pytest.skip(f"the device has no 2 GiB left: {error}")


def test_elements_beyond_32_bits(device, large):
    with fallback.report() as report:
        large.add_(1)
        large[COUNT - 3 :] = 5
        assert large.sum().item() == COUNT + 4 * 3
        assert large.amax().item() == 5
        every_other = large[1::2]
        doubled = every_other + every_other
        assert (doubled[0].item(), doubled[-1].item()) == (2, 10)
        places = torch.tensor([COUNT - 1, 0, COUNT - 2], device=device)
        assert torch.gather(large, 0, places).tolist() == [5, 1, 5]
    ways = ways_of(report)
    for name in ("add_.Tensor", "sum", "amax", "add.Tensor", "gather"):
        assert ways[f"aten::{name}"] == "device"
