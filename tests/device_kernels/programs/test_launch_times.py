"""When kernels ran, on the host's clock: for profilers."""

from __future__ import annotations

import itertools
import struct
import time

import pytest
import torch

from tests.device_kernels.processes import run_program
from torch_outboard import _C

SPIN = """
__kernel void spin(OB_POINTER(int, result), uint rounds) {
  OB_BIND(int, result)
  uint x = rounds;
  // Clang folds several rounds of a linear generator into one.
  for (uint i = 0; i < rounds; ++i) x = (x ^ (x >> 15)) * 1664525u;
  result[0] = (int)x;
}
"""


def spin(result: torch.Tensor, rounds: int) -> None:
    arguments = [("address", result.data_ptr()), ("value", struct.pack("I", rounds))]
    _C.launch_kernel(result.device.index, SPIN, "spin", "", [1], [1], arguments)


def check_times(times: list, before: int, after: int, rounds: list[int]) -> None:
    tolerance = 1_000_000
    assert [row[0] for row in times] == ["spin"] * len(rounds)
    assert before - tolerance <= times[0][3]
    assert times[-1][4] <= after + tolerance
    for (*_, start, end), count in zip(times, rounds, strict=True):
        assert end - start >= count / 6  # at most one round a cycle, at 6 GHz
    for (*_, end), (*_, start, _) in itertools.pairwise(times):
        assert end <= start


@pytest.mark.usefixtures("timed")
def test_times_of_kernels(device):
    x = torch.zeros(1, dtype=torch.int32, device=device)
    spin(x, 1)
    torch.accelerator.synchronize()
    _C.take_launch_times()
    rounds = [10_000_000, 20_000_000, 1_000_000]
    before = time.monotonic_ns()
    for count in rounds:
        spin(x, count)
    times = _C.take_launch_times()
    check_times(times, before, time.monotonic_ns(), rounds)
    assert {row[1:3] for row in times} == {(device.index, 0)}
    assert _C.take_launch_times() == []


@pytest.mark.usefixtures("timed")
def test_operators_and_streams(device):
    x = torch.ones(100, device=device)
    _C.take_launch_times()
    stream = torch.Stream(device)
    with stream:
        x.exp()
    ((name, index, stream_id, start, end),) = _C.take_launch_times()
    assert (name, index, stream_id) == (name, device.index, stream.stream_id)
    assert 0 < end - start < 60e9


def test_nothing_is_kept_when_it_is_off(device):
    torch.ones(100, device=device).exp()
    assert _C.take_launch_times() == []


def test_driver_that_times_events_alone() -> None:
    """Events around a launch, and their times by those of an event of the kit's."""
    code = """
        import time, torch, torch_outboard
        from tests.device_kernels import changed_driver
        from tests.device_kernels.programs import test_launch_times as tests
        from torch_outboard import _C
        from torch_outboard.drivers.contract import Feature

        def change(properties):
            properties.features &= ~Feature.LAUNCH_EVENTS

        properties = changed_driver.with_properties(change)
        changed_driver.use(event_time=None, device_properties=properties)
        x = torch.zeros(1, dtype=torch.int32, device="ocl")
        tests.spin(x, 1)
        torch.accelerator.synchronize()
        _C.time_launches(True)
        rounds = [10_000_000, 20_000_000, 1_000_000]
        before = time.monotonic_ns()
        for count in rounds:
            tests.spin(x, count)
        times = _C.take_launch_times()
        tests.check_times(times, before, time.monotonic_ns(), rounds)
        print("checked", len(times))
    """
    printed = run_program(code, OUTBOARD_DRIVER="ocl")
    assert printed.splitlines()[-1] == "checked 3", printed
