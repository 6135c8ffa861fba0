"""`torch.autograd.profiler` with the device's name."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.autograd.profiler import profile, record_function

pytestmark = [pytest.mark.separate]


def network(device):
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 10)).to(device)


def operators(device):
    x = torch.randn(10, 10, device=device)
    torch.abs((x + x) * x @ x)


def streams(device):
    first, second = torch.Stream(device), torch.Stream(device)
    event = torch.Event(device.type, enable_timing=True)
    with first:
        operators(device)
        event.record(first)
    with second:
        operators(device)
    event.synchronize()


def devices(device):
    for index in range(torch.accelerator.device_count()):
        operators(torch.device(device.type, index))


def training(device):
    model = network(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(32, 10, device=device)
    with record_function("loss"):
        loss = nn.functional.mse_loss(model(x), x)
    with record_function("derivatives"):
        loss.backward()
    with record_function("step"):
        optimizer.step()
        optimizer.zero_grad()


WORK = {
    streams: {"aten::add", "aten::mul", "aten::mm", "aten::abs"},
    devices: {"aten::add"},
    training: {"aten::addmm", "aten::relu", "loss", "derivatives", "step"},
}


@pytest.mark.parametrize("work", WORK)
def test_events_tables_and_traces(device, tmp_path, work):
    found = profile(use_device=device.type, record_shapes=True)
    with found, record_function("outside"), record_function("inside"):
        work(device)
    names = {event.name for event in found.function_events}
    assert WORK[work] | {"outside", "inside"} <= names
    if work is training:
        assert any("Backward" in name for name in names)
    averages = found.key_averages(group_by_input_shape=True)
    assert all(row.key and row.count > 0 and row.cpu_time_total >= 0 for row in averages)
    assert "inside" in averages.table(sort_by="cpu_time_total", row_limit=1000)
    assert f"{device.type}_time" not in names
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert len(trace["traceEvents"] if isinstance(trace, dict) else trace) > 0


def test_profiles_of_nothing_and_of_errors(device):
    with profile(use_device=device.type) as found:
        pass
    assert isinstance(found.function_events, list)
    found = profile(use_device=device.type)

    def fail():
        with found:
            operators(device)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert any(event.name == "aten::add" for event in found.function_events)
