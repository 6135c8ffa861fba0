"""Products and convolutions with what follows them in one kernel, whatever is measured."""

from __future__ import annotations

import pytest
from torch._dynamo.utils import counters

from tests.inductor.support import skip_without_kernels


@pytest.fixture
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured differs from machine to machine."""
    from torch_outboard.inductor.lowerings import convolutions, products

    skip_without_kernels()
    for module in (products, convolutions):
        monkeypatch.setattr(module, "_measured", lambda *given: True)
    counters.clear()
