"""A trace of dispatch has every operator, what it called, by which keys and where it ran."""

import threading

import pytest
import torch

import torch_outboard
from torch_outboard import fallback


@pytest.mark.separate
def test_parts_stand_in_what_they_are_parts_of(device, shares_memory):
    x = torch.ones(3, 4).to(device)
    w = torch.ones(2, 4).to(device).requires_grad_()
    with (
        torch_outboard.trace() as trace,
        fallback.policy(copied="allow"),
        torch.profiler.record_function("mine"),
    ):
        torch.nn.functional.linear(x, w)
    (mine,) = trace.calls  # a range of the program
    assert (mine.name, mine.keys) == ("mine", ())
    (linear,) = mine.parts
    assert linear.name == "aten::linear"
    assert linear.keys == ("AutogradPrivateUse1",)
    assert linear.placement is None
    names = [part.name for part in linear.parts]
    assert names[0] == "aten::t"
    product = next(part for part in linear.parts if part.name in ("aten::mm", "aten::matmul"))
    product = next(call for call in product.walk() if call.name == "aten::mm")
    assert product.keys == ("AutogradPrivateUse1", "PrivateUse1")
    assert product.placement in ("device", "host" if shares_memory else "copied")
    assert (product.dtype, product.device) == (torch.float32, str(device))
    assert linear.seconds >= product.seconds > 0


def test_keys_of_modes_come_first(device):
    x = torch.ones(2, 2).to(device)
    with torch_outboard.trace() as trace, fallback.policy(copied="allow"):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            torch.mm(x, x)
        torch.func.vmap(torch.sin)(x)
        torch.empty(2, device=device)
    made = next(call for call in trace.walk() if call.name == "aten::empty.memory_format")
    assert made.keys[-2:] == ("BackendSelect", "PrivateUse1")
    assert made.device == str(device)
    assert trace.calls[0].keys == ("AutocastPrivateUse1", "AutogradPrivateUse1", "PrivateUse1")
    sines = [call for call in trace.walk() if call.name == "aten::sin"]
    assert sines[0].keys[0] == "FuncTorchDynamicLayerFrontMode"
    assert sines[-1].keys[-1] == "PrivateUse1"


def test_backward_passes_are_seen_on_whatever_thread(device):
    x = torch.ones(4).to(device).requires_grad_()
    with fallback.policy(copied="allow"):
        y = (x * x).sum()
        with torch_outboard.trace() as trace:
            y.backward()
    found = {call.name: call for call in trace.walk()}
    assert any(name.endswith("MulBackward0") for name in found)
    node = next(call for call in trace.walk() if call.name == "MulBackward0")
    assert "aten::mul.Tensor" in [part.name for part in node.parts]


def test_threads_have_numbers(device):
    x = torch.ones(4).to(device)
    with torch_outboard.trace() as trace, fallback.policy(copied="allow"):
        torch.neg(x)
        thread = threading.Thread(target=lambda: torch.abs(x))
        thread.start()
        thread.join()
        torch.sin(x)
    threads = {call.name: call.thread for call in trace.calls}
    assert (threads["aten::neg"], threads["aten::abs"], threads["aten::sin"]) == (0, 1, 0)
    assert "[1] aten::abs" in str(trace)


def test_a_call_that_raises_is_marked(device):
    x = torch.ones(2, 3).to(device)
    with torch_outboard.trace() as trace, fallback.policy(copied="allow"):
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        torch.mm(x, x.t())
    first, second = (call for call in trace.walk() if call.name == "aten::mm")
    assert first.raised
    assert not second.raised
    assert "aten::mm (raised)" in str(trace)


def test_traces_do_not_nest():
    another = pytest.raises(RuntimeError, match="while another one runs")
    with torch_outboard.trace(), another, torch_outboard.trace():
        pass


def test_a_trace_ends_with_an_exception(device):
    x = torch.ones(2).to(device)

    def fail():
        with torch_outboard.trace() as first:
            traces.append(first)
            torch.neg(x)
            raise KeyError

    traces = []
    with fallback.policy(copied="allow"), pytest.raises(KeyError):
        fail()
    assert "aten::neg" in [call.name for call in traces[0].walk()]
    with torch_outboard.trace() as second:
        pass
    assert second.calls == []


def test_a_report_counts_beside_a_trace(device):
    x = torch.ones(2).to(device)
    with fallback.policy(copied="allow"), fallback.report() as report:
        with torch_outboard.trace() as trace:
            torch.neg(x)
        torch.neg(x)
    assert [call.placement for call in trace.walk() if call.name == "aten::neg"] == [
        row.placement for row in report.rows if row.op == "aten::neg"
    ]
    assert [row.calls for row in report.rows if row.op == "aten::neg"] == [2]
