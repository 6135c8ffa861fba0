"""Graphs that always run by code for the host, in the caches that a later process reads."""

from __future__ import annotations

import pytest

from tests.inductor.ways.test_kept_graph import PLAIN, STEPS, steps
from tests.support import run_python
from torch_outboard import _C

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _C.shares_host_memory(0), reason="code for the host needs memory that the host shares"
    ),
]
# The constant is memory of the device.
WITHOUT_CONSTANT = STEPS.replace("torch.tensor([1.0, 2.0, 3.0] * 3, device=x.device)", "2.0")


@pytest.fixture
def host_settings(measuring: dict[str, str]) -> dict[str, str]:
    return {**measuring, "OUTBOARD_WAY": "host"}


def test_a_second_process_traces_nothing(host_settings: dict[str, str]):
    assert run_python(PLAIN, timeout=280, **host_settings).split() == ["0"]
    assert run_python(PLAIN, timeout=280, **host_settings).split() == ["1"]


@pytest.mark.slow
def test_gradients_and_operators_of_the_device(host_settings: dict[str, str]):
    assert WITHOUT_CONSTANT != STEPS
    assert [steps(3, host_settings, WITHOUT_CONSTANT) for _ in range(2)] == [["miss"], ["hit"]]


@pytest.mark.slow
def test_memory_of_the_device_is_not_kept(host_settings: dict[str, str]):
    assert [steps(3, host_settings) for _ in range(2)] == [["miss"], ["miss"]]


@pytest.mark.slow
@pytest.mark.skipif(not _C.runs_code(0), reason="the device has no other way")
def test_another_way_takes_nothing_of_it(host_settings: dict[str, str]):
    for way in ("host", "device", "auto"):
        settings = {**host_settings, "OUTBOARD_WAY": way}
        assert run_python(PLAIN, timeout=280, **settings).split() == ["0"], way
