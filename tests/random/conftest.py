"""Fixtures of the operators' tests."""

import pytest
import torch


@pytest.fixture
def generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device=device)
