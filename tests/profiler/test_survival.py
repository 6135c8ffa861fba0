"""Profiles and histories of memory among forks, exits, lost devices and failing drivers."""

import pytest

from tests.device_kernels.processes import run_program, try_program

pytestmark = pytest.mark.by_turns(2)

START = """
    import gc, torch, torch_outboard
    from torch.profiler import profile
    from torch.utils import benchmark
    from tests.forking import in_child
    from tests.profiler.traces import *
    from torch_outboard.drivers import faults

    name = torch_outboard.device_name()
    device, second = (torch.device(name, index) for index in range(2))
    memory = torch.get_device_module(name).memory
"""
CHECKS = """
    def copies_of(profiler):
        return of_category(trace_of(profiler), "gpu_memcpy")

    def before_the_first_use():
        memory._record_memory_history(stacks="python")
        assert memory._snapshot()["segments"] == []
        with profile(activities=BOTH):
            torch.ones(3)
        with profile(activities=BOTH) as profiler:
            copy_there(pinned(), device)
        assert [copy["name"] for copy in copies_of(profiler)] == ["Memcpy HtoD"]

    def several_devices():
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, device)
            y = copy_there(source, second)
            with torch.Stream(second):
                z = x.to(second, non_blocking=True)
            torch.accelerator.synchronize(second)
        trace = trace_of(profiler)
        copies = of_category(trace, "gpu_memcpy")
        assert {(e["pid"], e["tid"]) for e in copies} >= {(0, 0), (1, 0)}
        assert {e["name"] for e in copies} == {"Memcpy HtoD", "Memcpy PtoP"}
        about = {e["pid"]: e["args"]["name"] for e in trace
                 if e["ph"] == "M" and e["name"] == "process_name"}
        assert (about[0], about[1]) == (f"{name}:0", f"{name}:1")
        assert names_of_lanes(trace, 1)[0] == "stream 0 (default)"

    def stopped_while_work_is_in_flight():  # PyTorch waits for the current device alone
        faults.configure(delay_us=200_000)
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, second)
            assert not torch.accelerator.current_stream(second).query()
        faults.configure(delay_us=0)
        (copy,) = copies_of(profiler)
        assert copy["pid"] == 1 and copy["dur"] > 0
        assert faults.live()["events"] < 10

    def pytorchs_timer_waits_for_the_device():
        target = torch.empty_like(source, device=device)
        faults.configure(delay_us=200_000)
        copy = lambda: target.copy_(source, non_blocking=True)
        assert benchmark.Timer("copy()", globals={"copy": copy}).timeit(1).median >= 0.2
        faults.configure(delay_us=0)

    def fork_while_profiling():
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, device)
            assert in_child(lambda: torch.ones(3) + 1) == "returned tensor([2., 2., 2.])"
            assert "forked child" in in_child(lambda: copy_there(source, device))
            ended = in_child(lambda: torch._C._autograd._disable_profiler() and None)
            assert ended == "returned None"
            assert in_child(lambda: globals().pop("kept") is None) == "returned False"
            ended = in_child(lambda: memory._record_memory_history(None))
            assert ended == "returned None"
        assert len(copies_of(profiler)) == 1

    def driver_without_times():
        # Unmeasurable work is left out, and neither results nor objects are lost.
        for call in ("event_create", "event_record", "event_elapsed", "event_query"):
            before = faults.live()["events"]
            faults.fail(call, repeat=True)
            with profile(activities=BOTH) as profiler:
                results = [copy_there(source, device) for _ in range(3)]
            faults.reset()
            assert all(bool((result.cpu() == 1).all()) for result in results), call
            trace = trace_of(profiler)
            assert len(of_category(trace, "gpu_memcpy")) in (0, 3), call
            assert len(named(trace, "copy_host_to_device")) == 3, call
            del results
            gc.collect()
            with profile(activities=BOTH) as profiler:
                x = copy_there(source, device)
            assert len(copies_of(profiler)) == 1, call
            assert faults.live()["events"] - before < 5, call

    def no_events_stay():
        target = copy_there(source, device)
        with profile(activities=BOTH) as profiler:
            for _ in range(4000):
                target.copy_(source, non_blocking=True)
            assert faults.live()["events"] < 7900
        assert len(copies_of(profiler)) == 4000
        del profiler
        torch.accelerator.synchronize()
        assert faults.live()["events"] < 20

    def lost_device():
        profiler = profile(activities=BOTH)
        profiler.start()
        x = copy_there(source, device)
        torch.accelerator.synchronize()
        faults.lose(0)
        try:
            y = copy_there(source, device)
            torch.accelerator.synchronize()
        except torch.AcceleratorError as error:
            assert "lost" in str(error)
        else:
            raise AssertionError("the device was not lost")
        try:
            profiler.stop()
        except torch.AcceleratorError:
            # PyTorch waits for the device before it ends a profile.
            torch._C._autograd._disable_profiler()
        global kept
        kept = x = y = None
        gc.collect()
        torch.get_device_module(name).reset_device(0)
        with profile(activities=BOTH) as profiler:
            x = copy_there(source, device)
        assert len(copies_of(profiler)) == 1

    before_the_first_use()
    source, kept = pinned(), torch.ones(1000, device=device)
    for check in (several_devices, stopped_while_work_is_in_flight,
                  pytorchs_timer_waits_for_the_device, fork_while_profiling, driver_without_times,
                  no_events_stay, lost_device):
        for where in (device, second):
            copy_there(source, where)
            torch.accelerator.synchronize(where)
        check()
        assert faults.misuses() == 0, check
    # The process ends while it profiles and records the history of memory.
    profiler = profile(activities=BOTH)
    profiler.start()
    for _ in range(100):
        x = copy_there(source, device)
    print("end")
"""


def test_profiles_of_a_process():
    printed = run_program(
        START + CHECKS,
        timeout=240,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_ACCESS="separate",
        OUTBOARD_HOST_DEVICES="2",
        OUTBOARD_FAULTS="count",
    )
    assert printed.splitlines()[-1] == "end"


def test_a_profile_of_cpu_kernels_says_why_it_has_no_times():
    result = try_program(
        START
        + """
    x = torch.ones(10, device=device)
    for _ in range(2):
        with profile(activities=BOTH) as profiler:
            x + 1
    print("Self CPU" in profiler.key_averages().table())
    """,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_ACCESS="shared",
        OUTBOARD_CLANG="none",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "True"
    assert result.stderr.count("the profile has no times of device 'host'") == 1
