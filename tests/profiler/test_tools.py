"""PyTorch's other tools for measuring, on the device."""

from __future__ import annotations

import json

import pytest
import torch
from torch.profiler import ExecutionTraceObserver, profile, record_function

from tests.profiler.traces import BOTH, copy_there, named, of_category, pinned, trace_of
from tests.support import run_python

pytestmark = pytest.mark.separate


@pytest.mark.by_turns(2)
def test_timer_waits_for_the_device():
    """Work that takes at least 0.3 seconds is not measured to take less."""
    out = run_python(
        """
        import torch, torch_outboard
        from torch.utils import benchmark
        source = torch.ones(8 << 20).pin_memory()
        target = torch.empty_like(source, device=torch_outboard.device_name())
        copy = lambda: target.copy_(source, non_blocking=True)
        print(benchmark.Timer("copy()", globals={"copy": copy}).timeit(1).median)
        """,
        OUTBOARD_TORTURE="delay_us=300000",
    )
    assert float(out) >= 0.3


def test_execution_trace(device, tmp_path):
    path = tmp_path / "execution.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    with profile(activities=BOTH, execution_trace_observer=observer):
        torch.ones(10, device=device) + 1
    nodes = json.loads(path.read_text())["nodes"]
    add = next(node for node in nodes if node["name"] == "aten::add")
    assert str(device) in json.dumps(add)


def test_ranges_for_tools_of_intel(device):
    """`emit_itt` marks the operators that run on the device, too."""
    if not torch.profiler.itt.is_available():
        pytest.skip("this PyTorch was built without ITT")
    with torch.autograd.profiler.emit_itt():
        assert (torch.ones(10, device=device) + 1).sum().item() == 20


def test_profile_of_autograd_by_device(device):
    source = pinned()
    with torch.autograd.profiler.profile(use_device=device.type, use_kineto=True) as profiler:
        copy_there(source, device)
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["Memcpy HtoD"].self_device_time_total > 0
    assert rows["aten::_copy_from"].device_time_total > 0


def test_functions_and_stacks(device):
    source = pinned()

    @record_function("decorated")
    def work() -> None:
        copy_there(source, device)

    with profile(activities=BOTH, with_stack=True, record_shapes=True) as profiler:
        work()
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["decorated"].device_time_total > 0
    by_shape = profiler.key_averages(group_by_input_shape=True)
    copied = next(row for row in by_shape if row.key == "aten::_copy_from")
    assert copied.input_shapes[0] == [source.numel()]


def test_backward_thread(device):
    """What autograd's threads give to the device belongs to operators, too."""
    source = pinned().requires_grad_()
    target = copy_there(source, device)
    target.sum().backward()
    with profile(activities=BOTH) as profiler:
        target = copy_there(source, device) if source.is_pinned() else source.to(device)
        target.sum().backward()
    trace = trace_of(profiler)
    operators = {e["args"]["External id"]: e for e in of_category(trace, "cpu_op")}
    linked = [e for e in trace if e.get("cat") in ("kernel", "gpu_memcpy") and e["ph"] == "X"]
    assert linked
    assert all(e["args"]["External id"] in operators for e in linked)


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this PyTorch has no torch.accelerator.Graph"
)
def test_graphs(device):
    source = pinned()
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
