"""Profiles among forks, exits, lost devices, failing drivers and work in flight.

Each test has processes of its own.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support import run_python, try_python

pytestmark = pytest.mark.by_turns(4)

ROOT = str(Path(__file__).parents[2])

START = """
import gc, os, sys, threading, time
import torch, torch_outboard
from torch.profiler import profile
from tests.profiler.traces import *

name = torch_outboard.device_name()
device = torch.device(name, 0)
"""


TORTURED = {"OUTBOARD_DRIVER": "host", "OUTBOARD_TORTURE": "count"}


def run(code: str, **env: str | None) -> list[str]:
    printed = run_python(START + textwrap.dedent(code), timeout=240, PYTHONPATH=ROOT, **env)
    return [line for line in printed.splitlines() if not line.startswith("USDT:")]


def test_before_the_first_use():
    printed = run(
        """
        with profile(activities=BOTH) as empty:
            torch.ones(3)
        print(torch.get_device_module(name).is_initialized())
        with profile(activities=BOTH) as profiler:
            copy_there(pinned(), device)
        print([e["name"] for e in of_category(trace_of(profiler), *DEVICE_CATEGORIES)])
        """
    )
    assert printed[1:] == ["['Memcpy HtoD']"]


def test_exit_while_profiling():
    result = try_python(
        START
        + textwrap.dedent("""
        source = pinned()
        profiler = profile(activities=BOTH)
        profiler.start()
        for _ in range(100):
            x = copy_there(source, device)
        print("end")
        """),
        PYTHONPATH=ROOT,
    )
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "end"), result.stderr


def test_fork_while_profiling():
    printed = run(
        """
        from tests.forking import in_child

        source = pinned()
        copy_there(source, device)
        profiler = profile(activities=BOTH)
        profiler.start()
        copy_there(source, device)
        print(in_child(lambda: torch.ones(3) + 1))
        print(in_child(lambda: copy_there(source, device)))
        print(in_child(lambda: torch._C._autograd._disable_profiler() and None))
        profiler.stop()
        print(len(of_category(trace_of(profiler), "gpu_memcpy")))
        """
    )
    assert printed[0] == "returned tensor([2., 2., 2.])"
    assert "forked child" in printed[1]
    assert printed[2] == "returned None"
    assert printed[3] == "1"


def test_stopped_while_work_is_in_flight():
    """PyTorch waits for the current device alone."""
    printed = run(
        """
        from torch_outboard.drivers import torture

        other = torch.device(name, 1)
        source = pinned()
        for where in (device, other):
            copy_there(source, where)
            torch.accelerator.synchronize(where)
        torture.configure(delay_us=300_000)
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, other)
            print(torch.accelerator.current_stream(other).query())
        torture.configure(delay_us=0)
        (copy,) = of_category(trace_of(profiler), "gpu_memcpy")
        print(copy["pid"], copy["dur"] > 0)
        print(torture.misuses(), torture.live()["events"] < 10)
        """,
        **TORTURED,
        OUTBOARD_HOST_DEVICES="2",
    )
    assert printed == ["False", "1 True", "0 True"]


def test_several_devices():
    printed = run(
        """
        source = pinned()
        second = torch.device(name, 1)
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, device)
            y = copy_there(source, second)
            with torch.Stream(second):
                z = x.to(second, non_blocking=True)
            torch.accelerator.synchronize(second)
        trace = trace_of(profiler)
        copies = of_category(trace, "gpu_memcpy")
        print(sorted({(e["pid"], e["tid"]) for e in copies}))
        about = {e["pid"]: e["args"]["name"] for e in trace
                 if e["ph"] == "M" and e["name"] == "process_name"}
        print(about[0], about[1])
        print(names_of_lanes(trace, 1))
        print({e["name"] for e in copies})
        """,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_DEVICES="2",
        OUTBOARD_HOST_ACCESS="separate",
    )
    assert printed[0].startswith("[(0, 0), (1, 0)")
    assert printed[1] == "host:0 host:1"
    assert printed[2].startswith("{0: 'stream 0 (default)'")
    assert printed[3] in ("{'Memcpy HtoD', 'Memcpy PtoP'}", "{'Memcpy PtoP', 'Memcpy HtoD'}")


def test_driver_without_times():
    """What cannot be measured is left out, and neither results nor objects are lost."""
    printed = run(
        """
        from torch_outboard.drivers import torture

        source = pinned()
        for call in ("event_create", "event_record", "event_elapsed", "event_query"):
            copy_there(source, device)
            torch.accelerator.synchronize()
            before = torture.live()["events"]
            torture.fail(call, repeat=True)
            with profile(activities=BOTH) as profiler:
                results = [copy_there(source, device) for _ in range(3)]
            torture.reset()
            right = all(bool((result.cpu() == 1).all()) for result in results)
            trace = trace_of(profiler)
            copies = len(of_category(trace, "gpu_memcpy"))
            calls = len(named(trace, "copy_host_to_device"))
            del results
            gc.collect()
            with profile(activities=BOTH) as profiler:
                x = copy_there(source, device)
            later = len(of_category(trace_of(profiler), "gpu_memcpy"))
            few = torture.live()["events"] - before < 5
            print(call, right, copies in (0, 3), calls, later, torture.misuses(), few)
        """,
        **TORTURED,
    )
    calls = ("event_create", "event_record", "event_elapsed", "event_query")
    assert printed == [f"{call} True True 3 1 0 True" for call in calls]


def test_lost_device():
    printed = run(
        """
        from torch_outboard.drivers import torture

        source = pinned()
        copy_there(source, device)
        torch.accelerator.synchronize()
        profiler = profile(activities=BOTH)
        profiler.start()
        x = copy_there(source, device)
        torch.accelerator.synchronize()
        torture.lose(0)
        try:
            y = copy_there(source, device)
            torch.accelerator.synchronize()
        except torch.AcceleratorError as error:
            print("lost" in str(error))
        try:
            profiler.stop()
        except torch.AcceleratorError:
            # PyTorch waits for the device before it ends a profile.
            torch._C._autograd._disable_profiler()
        x = y = None
        gc.collect()
        torch.get_device_module(name).reset_device(0)
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, device)
        print(len(of_category(trace_of(profiler), "gpu_memcpy")), torture.misuses())
        """,
        **TORTURED,
    )
    assert printed == ["True", "1 0"]


def test_no_events_stay():
    printed = run(
        """
        from torch_outboard.drivers import torture

        source = pinned()
        target = copy_there(source, device)
        for turn in range(3):
            with profile(activities=BOTH) as profiler:
                for _ in range(4000):
                    target.copy_(source, non_blocking=True)
                most = torture.live()["events"]
            print(len(of_category(trace_of(profiler), "gpu_memcpy")), most < 7900)
        del profiler
        torch.accelerator.synchronize()
        print(torture.live()["events"] < 20, torture.misuses())
        """,
        **TORTURED,
    )
    assert printed == ["4000 True"] * 3 + ["True 0"]


def test_profile_of_the_way_host_says_why_it_has_no_times():
    result = try_python(
        START
        + textwrap.dedent("""
        x = torch.ones(10, device=device)
        for _ in range(2):
            with profile(activities=BOTH) as profiler:
                x + 1
        print("Self CPU" in profiler.key_averages().table())
        """),
        PYTHONPATH=ROOT,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_ACCESS="shared",
        OUTBOARD_CLANG="none",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "True"
    assert result.stderr.count("the profile has no times of device 'host'") == 1
