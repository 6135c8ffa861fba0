"""`gradcheck` in float64 of every entry with a gradient, and of every differentiable family."""

import pytest


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_entry(device):
    from tests.opinfo.gradcheck import main  # takes seconds

    assert main([]) == 0
