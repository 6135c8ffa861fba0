"""Kernels of the device in profiles."""

import itertools
import time
import uuid

import pytest
import torch

from tests.device_kernels.processes import run_program
from tests.profiler.traces import named, of_category, profiled, trace_of
from torch_outboard import _C, placement

SPIN = """
__kernel void spin(OB_POINTER(int, result), uint rounds) {
  OB_BIND(int, result)
  uint x = rounds;
  for (uint i = 0; i < rounds; ++i) x = (x ^ (x >> 15)) * 1664525u;
  result[get_global_id(0)] = (int)x;
}
"""


@pytest.fixture(autouse=True)
def _device_placement(device):
    if not _C.runs_code(device.index):
        pytest.skip("the device runs no kernels")
    with placement.use("device"):
        yield


def spin(result: torch.Tensor, rounds: int) -> None:
    arguments = [("address", result.data_ptr()), ("value", rounds.to_bytes(4, "little"))]
    _C.launch_kernel(result.device.index, SPIN, "spin", "", [4], [1], arguments)


def check_a_kernel_that_lasts(device: torch.device) -> None:
    result = torch.zeros(4, dtype=torch.int32, device=device)
    spin(result, 1)
    rounds = (20_000_000, 1_000_000)
    torch.accelerator.synchronize()
    begin = time.perf_counter()
    profiler = profiled(lambda: [spin(result, count) for count in rounds])
    lasted = (time.perf_counter() - begin) * 1e6
    kernels = of_category(trace_of(profiler), "kernel")
    assert sum(kernel["dur"] for kernel in kernels) <= lasted
    assert [kernel["name"] for kernel in kernels] == ["spin", "spin"]
    for kernel, count in zip(kernels, rounds, strict=True):
        assert kernel["dur"] >= count / 6e3  # at most one round a cycle, at 6 GHz
        assert (kernel["args"]["grid"], kernel["args"]["block"]) == ([4, 1, 1], [1, 1, 1])
        assert "External id" not in kernel["args"]
    for kernel, following in itertools.pairwise(kernels):
        assert kernel["ts"] + kernel["dur"] <= following["ts"]


def test_a_kernel_that_lasts(device):
    check_a_kernel_that_lasts(device)


def test_driver_that_times_events_alone():
    """Events around a launch, and their times by those of an event of the kit's."""
    run_program(
        """
        import torch
        from tests.device_kernels import changed_driver
        from tests.profiler.test_kernels import check_a_kernel_that_lasts
        from torch_outboard.drivers.contract import Feature

        def change(properties):
            properties.features &= ~Feature.LAUNCH_EVENTS

        properties = changed_driver.with_properties(change)
        changed_driver.use(event_time=None, device_properties=properties)
        check_a_kernel_that_lasts(torch.device("ocl", 0))
        """,
        OUTBOARD_DRIVER="ocl",
    )


def test_kernels_of_operators(device):
    x = torch.rand(1000, device=device)
    (x.exp(), x.sum())
    profiler = profiled(lambda: (x.exp(), x.sum()))
    trace = trace_of(profiler)
    operators = {e["args"]["External id"]: e for e in of_category(trace, "cpu_op")}
    kernels = of_category(trace, "kernel")
    served = [operators[kernel["args"]["External id"]] for kernel in kernels]
    assert {operator["name"] for operator in served} == {"aten::exp", "aten::sum"}
    for kernel, operator in zip(kernels, served, strict=True):
        assert kernel["name"] == f"{kernel['args']['kernel']} ({operator['name']})"
        assert operator["ts"] <= kernel["ts"]
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["aten::exp"].self_device_time_total > 0


def test_compiling_is_seen(device):
    result = torch.zeros(4, dtype=torch.int32, device=device)
    source = SPIN + f"// {uuid.uuid4()}\n"  # which no cache has
    arguments = [("address", result.data_ptr()), ("value", (1).to_bytes(4, "little"))]
    trace = trace_of(
        profiled(lambda: _C.launch_kernel(device.index, source, "spin", "", [4], [1], arguments))
    )
    (build,) = named(trace, "program_build")
    assert build["dur"] > 0
    assert len(of_category(trace, "kernel")) == 1
