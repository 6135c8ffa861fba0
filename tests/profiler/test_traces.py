"""Work of the device in the traces and tables of `torch.profiler`."""

import itertools
import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tests.profiler.traces import (
    BOTH,
    DEVICE_CATEGORIES,
    LARGE,
    copy_there,
    named,
    names_of_lanes,
    of_category,
    pinned,
    profiled,
    trace_of,
)
from tests.support import in_threads


@pytest.fixture
def source(device) -> torch.Tensor:
    source = pinned()
    copy_there(source, device)
    torch.accelerator.synchronize()
    return source


def test_copy_belongs_to_its_operator(device, source):
    trace = trace_of(profiled(lambda: copy_there(source, device)))
    (copy,) = of_category(trace, *DEVICE_CATEGORIES)
    assert copy["name"] == "Memcpy HtoD"
    assert (copy["pid"], copy["tid"]) == (device.index, 0)
    assert copy["args"]["bytes"] == LARGE
    (call,) = named(trace, "copy_host_to_device")
    assert call["cat"] == "privateuse1_runtime"
    operators = {e["args"]["External id"]: e for e in of_category(trace, "cpu_op")}
    for linked in (copy, call):
        assert operators[linked["args"]["External id"]]["name"] == "aten::_copy_from"
    assert copy["args"]["correlation"] == call["args"]["correlation"]

    operator = operators[call["args"]["External id"]]
    assert operator["ts"] <= call["ts"] <= copy["ts"]
    assert call["ts"] + call["dur"] <= operator["ts"] + operator["dur"]
    assert 0 < copy["dur"] < 60e6

    arrow = [e for e in trace if e.get("cat") == "ac2g"]
    begin, end = sorted(arrow, key=lambda e: "sf".index(e["ph"]))
    assert begin["id"] == end["id"]
    assert [(e["pid"], e["tid"], e["ts"]) for e in (begin, end)] == [
        (e["pid"], e["tid"], e["ts"]) for e in (call, copy)
    ]


def test_names_of_device_and_queues(device, device_module, source):
    other = torch.Stream(device)

    def work() -> None:
        copy_there(source, device)
        with other:
            copy_there(source, device)

    trace = trace_of(profiled(work))
    about = {e["name"]: e["args"] for e in trace if e["ph"] == "M" and e["pid"] == device.index}
    assert about["process_name"] == {"name": str(device)}
    assert about["process_labels"] == {"labels": device_module.get_device_name(device)}
    lanes = names_of_lanes(trace, device.index)
    assert lanes == {0: "stream 0 (default)", other.stream_id: f"stream {other.stream_id}"}
    assert {e["tid"] for e in of_category(trace, "gpu_memcpy")} == set(lanes)


def test_times_in_tables(device, source):
    averages = profiled(lambda: [copy_there(source, device) for _ in range(3)]).key_averages()
    rows = {row.key: row for row in averages}
    copies = rows["Memcpy HtoD"]
    assert (copies.count, rows["aten::_copy_from"].count) == (3, 3)
    assert copies.self_device_time_total > 0
    assert rows["aten::_copy_from"].self_device_time_total == pytest.approx(
        copies.self_device_time_total
    )
    assert rows["aten::to"].device_time_total == pytest.approx(copies.self_device_time_total)

    column = f"self_{device.type}_time_total"
    assert getattr(copies, column) == copies.self_device_time_total
    assert f"Self {device.type.upper()} time total" in averages.table(sort_by=column)


def test_ranges_of_the_user_on_the_device(device, source):
    def work() -> None:
        with record_function("outer"):
            copy_there(source, device)
            with record_function("inner"):
                copy_there(source, device)
        copy_there(source, device)

    profiler = profiled(work)
    trace = trace_of(profiler)
    copies = of_category(trace, "gpu_memcpy")
    ranges = {e["name"]: e for e in of_category(trace, "gpu_user_annotation")}
    assert set(ranges) == {"outer", "inner"}

    def inside(event: dict, around: dict) -> bool:
        tolerance = 0.01
        end, last = event["ts"] + event["dur"], around["ts"] + around["dur"]
        return around["ts"] <= event["ts"] + tolerance and end <= last + tolerance

    assert [inside(copy, ranges["outer"]) for copy in copies] == [True, True, False]
    assert [inside(copy, ranges["inner"]) for copy in copies] == [False, True, False]
    # They are no work: the sum below the table has the copies alone.
    total = sum(
        row.self_device_time_total
        for row in profiler.key_averages()
        if not row.is_user_annotation and row.key.startswith("Memcpy")
    )
    printed = profiler.key_averages().table(time_unit="us").splitlines()[-1]
    assert float(printed.split()[-1].removesuffix("us")) == pytest.approx(total, abs=0.01)


def test_waits_of_the_host_and_of_queues(device, source):
    other = torch.Stream(device)

    def work() -> None:
        copy_there(source, device)
        ready = torch.Event(device)
        ready.record()
        ready.synchronize()
        ready.record()
        other.wait_event(ready)
        with other:
            copy_there(source, device)
        other.synchronize()

    profiler = profiled(work)
    trace = trace_of(profiler)
    calls = {e["name"] for e in of_category(trace, "privateuse1_runtime")}
    assert {"event_synchronize", "event_wait", "queue_synchronize"} <= calls
    (wait,) = named(trace, "Stream Wait Event")
    assert (wait["pid"], wait["tid"]) == (device.index, other.stream_id)
    assert wait["dur"] >= 0
    # No work runs while it waits.
    row = next(r for r in profiler.key_averages() if r.key == "Stream Wait Event")
    assert row.is_user_annotation


def test_threads(device, source):
    """Operators of several threads at once get their own work."""

    def work() -> None:
        def one(i: int) -> None:
            stream = torch.Stream(device)
            with record_function(f"thread {i}"), stream:
                for _ in range(i + 1):
                    copy_there(source, device)

        with torch.profiler.record_function("all"):
            in_threads(one, 3)

    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    trace = trace_of(profiled(work, experimental_config=config))
    operators = {e["args"]["External id"]: e for e in of_category(trace, "cpu_op")}
    calls = named(trace, "copy_host_to_device")
    assert len(calls) == 6
    for call in calls:
        operator = operators[call["args"]["External id"]]
        assert operator["tid"] == call["tid"]
        assert operator["ts"] <= call["ts"]
        assert call["ts"] + call["dur"] <= operator["ts"] + operator["dur"]
    assert len({call["tid"] for call in calls}) == 3
    ranges = [e["name"] for e in of_category(trace, "gpu_user_annotation")]
    assert sorted(ranges) == ["thread 0", "thread 1", "thread 2"]


def test_activities_that_were_asked_for(device, source):
    alone = profiled(lambda: copy_there(source, device), activities=[ProfilerActivity.PrivateUse1])
    trace = trace_of(alone)
    assert [e["name"] for e in of_category(trace, *DEVICE_CATEGORIES)] == ["Memcpy HtoD"]
    assert of_category(trace, "cpu_op") == []

    host = trace_of(profiled(lambda: copy_there(source, device), activities=[ProfilerActivity.CPU]))
    assert of_category(host, *DEVICE_CATEGORIES, "privateuse1_runtime") == []
    assert named(host, "aten::_copy_from")


def test_many_calls(device, source):
    """More than are kept with their events at a time."""
    small = source[: LARGE // 8].pin_memory()
    target = torch.empty_like(small, device=device)
    count = 5000
    trace = trace_of(
        profiled(lambda: [target.copy_(small, non_blocking=True) for _ in range(count)])
    )
    copies = of_category(trace, "gpu_memcpy")
    assert len(copies) == count
    numbers = [copy["args"]["correlation"] for copy in copies]
    assert numbers == sorted(numbers)
    for copy, following in itertools.pairwise(copies):
        assert copy["ts"] + copy["dur"] <= following["ts"] + 1000


def test_memory_of_the_device(device, source):
    kept = []
    profiler = profiled(lambda: kept.append(copy_there(source, device)), profile_memory=True)
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["aten::empty_strided"].self_device_memory_usage == LARGE
    instants = [e for e in trace_of(profiler) if e.get("name") == "[memory]"]
    taken = [e["args"] for e in instants if e["args"]["Bytes"] == LARGE]
    assert [args["Device Id"] for args in taken] == [device.index]
    assert taken[0]["Device Type"] == int(torch._C._autograd.DeviceType.PrivateUse1)


@pytest.mark.skipif(
    torch.__version__ < (2, 12), reason="before 2.12 the outer profile raises, on CPU as well"
)
def test_profile_in_a_profile(device, source):
    """As on CPU: the inner one takes over, and the outer one has nothing."""
    with profile(activities=BOTH) as outer:
        copy_there(source, device)
        inner = profiled(lambda: [copy_there(source, device) for _ in range(2)])
        copy_there(source, device)
    assert len(of_category(trace_of(inner), "gpu_memcpy")) == 2
    assert not outer.key_averages()
    after = trace_of(profiled(lambda: copy_there(source, device)))
    assert len(of_category(after, "gpu_memcpy")) == 1


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this PyTorch has no torch.accelerator.Graph"
)
def test_graphs(device, source):
    target = copy_there(source, device)
    torch.accelerator.synchronize()
    stream = torch.Stream(device)
    with stream, profile(activities=BOTH) as profiler:
        graph = torch.accelerator.Graph()
        try:
            graph.capture_begin()
        except NotImplementedError as error:
            pytest.skip(str(error).splitlines()[0])
        target.copy_(source, non_blocking=True)
        graph.capture_end()
        for _ in range(3):
            with record_function("replays"):
                graph.replay()
    trace = trace_of(profiler)
    # The captured copy has a call and no time.
    assert len(named(trace, "copy_host_to_device")) == 1
    assert of_category(trace, "gpu_memcpy") == []
    replays = of_category(trace, "kernel")
    assert [e["name"] for e in replays] == ["graph"] * 3
    assert all(e["tid"] == stream.stream_id and e["dur"] > 0 for e in replays)


@pytest.mark.parametrize("use_kineto", [False, True])
def test_profile_of_autograd(device, source, capfd, use_kineto):
    """Without Kineto, times are those between events of PyTorch's around each operator."""
    begin = time.perf_counter()
    with torch.autograd.profiler.profile(use_device=device.type, use_kineto=use_kineto) as profiler:
        for _ in range(3):
            copy_there(source, device)
    lasted = (time.perf_counter() - begin) * 1e6
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["aten::_copy_from"].count == 3
    assert 0 < rows["aten::_copy_from"].device_time_total <= lasted
    assert 0 < sum(row.self_device_time_total for row in rows.values()) <= lasted * (1 + use_kineto)
    assert profiler.key_averages().table()
    assert "Exception in RecordFunction" not in capfd.readouterr().err
