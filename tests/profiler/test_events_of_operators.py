"""Device times in PyTorch's profiler."""

from __future__ import annotations

import pytest

from tests.support import try_python

pytestmark = pytest.mark.separate


def test_device_times_make_sense(device):
    result = try_python(
        """
        import sys, time, torch
        name = sys.argv[1]
        x = torch.ones(1 << 16, device=name)
        x + 1
        begin = time.perf_counter()
        with torch.autograd.profiler.profile(use_device=name, use_kineto=False) as profile:
            for _ in range(3):
                (x + 1).sum()
            torch.ones(4, device=name)
        lasted = (time.perf_counter() - begin) * 1e6
        events = {event.key: event for event in profile.key_averages()}
        print(events["aten::add"].count, profile.use_device)
        times = [event.self_device_time_total for event in events.values()]
        print(all(0 <= t <= lasted for t in times), sum(times) <= lasted)
        print(len(profile.key_averages().table()) > 0)
        """,
        device.type,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-3:] == [f"3 {device.type}", "True True", "True"]
    assert "Exception in RecordFunction" not in result.stderr
    assert len(result.stderr.splitlines()) < 60
