"""Fixtures of the tests of the device module."""

import pytest
import torch


@pytest.fixture
def second(device: torch.device, device_module) -> torch.device:
    """A second device; drivers with one device skip what needs it."""
    if device_module.device_count() < 2:
        pytest.skip("the driver has one device")
    return torch.device(device.type, 1)
