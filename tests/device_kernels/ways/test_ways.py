"""The choice between the kit's device kernels and its host kernels."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.conftest import ways_of
from tests.device_kernels.processes import run_program
from tests.support import run_python
from torch_outboard import _C, fallback, ways


def way_of_add(device: torch.device) -> str:
    x = torch.ones(3, device=device)
    with fallback.report() as report:
        x + x
    return ways_of(report)["aten::add.Tensor"]


def test_a_way_for_a_block(device, shares_memory):
    host = "shared" if shares_memory else "copied"
    assert ways.get_way(device) == "device"
    assert way_of_add(device) == "device"
    with ways.way("host"):
        assert ways.get_way(device) == "host"
        assert way_of_add(device) == host
        with ways.way("device", device):
            assert way_of_add(device) == "device"
        assert way_of_add(device) == host
    assert way_of_add(device) == "device"
    with pytest.raises(KeyError), ways.way("host"):
        raise KeyError
    assert ways.get_way() == "device"
    for name in ("", "gpu", "Device"):
        with pytest.raises(ValueError, match="use 'auto', 'device' or 'host'"):
            ways.set_way(name)
        with pytest.raises(ValueError, match="use 'auto', 'device' or 'host'"), ways.way(name):
            pass


def test_auto_asks_the_kind_of_device(device, device_module, shares_memory, savings):
    """A few calls are not worth compiling for on a CPU; without a table there is the device."""
    properties = device_module.get_device_properties(device)
    expected = "shared" if shares_memory and properties.kind == "cpu" else "device"
    assert way_of_add(device) == expected
    savings(None)
    assert way_of_add(device) == "device"
    assert ways.savings(device) == {}


@pytest.fixture
def shared_cpu(device, device_module, shares_memory):
    """Programs start on the host."""
    if not shares_memory or device_module.get_device_properties(device).kind != "cpu":
        pytest.skip("this is about CPUs that share their memory with the host")


# Calls after which a program is on the other side, if each is better there by 1 ms: the balance
# goes from 0 to 4 ms, and from 4 ms on one side to 4 ms on the other.
FIRST, LATER = 4, 8


def uncounted_ones(device: torch.device, elements: int = 3) -> torch.Tensor:
    with ways.way("host", device):
        return torch.ones(elements, device=device)


def ways_of_adds(device: torch.device, calls: int) -> list[str]:
    found = []
    for _ in range(calls):
        x = uncounted_ones(device)
        with fallback.report() as report:
            x + x
        found.append(ways_of(report)["aten::add.Tensor"])
    return found


def test_a_program_changes_sides_when_that_would_have_saved_enough(device, savings, shared_cpu):
    savings({"aten::add": -1000, "aten::mul": 1000})
    assert ways_of_adds(device, FIRST + 1) == ["shared"] * (FIRST - 1) + ["device"] * 2
    x = torch.ones(3, device=device)
    for _ in range(LATER):
        with fallback.report() as report:
            x * x
    assert ways_of(report) == {"aten::mul.Tensor": "shared"}
    assert way_of_add(device) == "shared"


def test_an_operator_goes_before_its_family(device, savings, shared_cpu):
    savings({"aten::add": 0, "pointwise": -1000})
    assert set(ways_of_adds(device, LATER)) == {"shared"}
    x = uncounted_ones(device)
    for _ in range(FIRST):
        x * x
    assert way_of_add(device) == "device"
    # What is not measured goes with the program.
    with fallback.report() as report:
        x.sum()
    assert ways_of(report) == {"aten::sum": "device"}


def test_the_number_of_elements_counts(device, savings, shared_cpu):
    """Of lists, that of all their tensors."""
    savings({})
    _C.set_way_savings(device.index, {"aten::add": [0] * 3 + [-1_000_000] * 29})
    assert set(ways_of_adds(device, LATER)) == {"shared"}  # 3 elements
    x = torch.ones(4, device=device)
    for _ in range(FIRST):
        x + x
    assert way_of_add(device) == "device"
    assert not torch.ones(1 << 20, device=device).add(1).isnan().any()
    savings({})
    _C.set_way_savings(device.index, {"aten::_foreach_add": [0] * 4 + [-1_000_000] * 28})
    _C.forget_side(device.index)
    for length, expected in ((2, "shared"), (3, "device")):
        x = [torch.ones(3, device=device) for _ in range(length)]
        for _ in range(FIRST):
            with fallback.report() as report:
                torch._foreach_add_(x, 1.0)
        assert set(ways_of(report).values()) == {expected}, length


@pytest.mark.parametrize(
    ("side", "way", "saved"), [("device", "device", 1000), ("host", "shared", -1000)]
)
def test_a_program_that_is_put_on_a_side_is_held_there(
    device, savings, shared_cpu, side, way, saved
):
    """Until the other one would have saved much more than it takes otherwise."""
    savings({"aten::add": saved})
    _C.put_program_on_side(device.index, side)
    assert set(ways_of_adds(device, 10 * LATER)) == {way}
    _C.put_program_on_side(device.index, side)  # as each call of a graph does
    balance = (_C.WAY_HOLD + _C.WAY_PATIENCE) // 1_000_000
    *held, last = ways_of_adds(device, balance)
    assert set(held) == {way} != {last}
    _C.put_program_on_side(device.index, "device")
    _C.forget_side(device.index)
    assert way_of_add(device) == "shared"


def test_forced_and_deterministic_programs_stay_on_their_side(device, savings, shared_cpu):
    """And are put on no other one."""
    savings({"aten::add": -1000})
    for way in ("device", "host"):
        with ways.way(way, device):
            ways_of_adds(device, LATER)
            _C.put_program_on_side(device.index, "device")
    assert way_of_add(device) == "shared"
    torch.use_deterministic_algorithms(True)
    try:
        _C.put_program_on_side(device.index, "device")
        assert set(ways_of_adds(device, LATER)) == {"shared"}
    finally:
        torch.use_deterministic_algorithms(False)
    assert way_of_add(device) == "device"


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="needs torch.accelerator.Graph")
def test_a_stream_that_captures_stays_on_its_side():
    printed = run_program(
        """
        import torch
        from tests.device_kernels import recording_driver
        from torch_outboard import _C, fallback, ways

        recording_driver.use()
        device = torch.device("ocl", 0)
        x = torch.ones(3, device=device)
        x + x
        torch.Stream(device).__enter__()

        def multiply():
            with fallback.report() as report:
                for _ in range(20):
                    x * x
            return [row.way for row in report.rows]

        ways.set_way("auto", device)
        _C.set_way_savings(0, {"aten::add": [-1_000_000] * 32, "aten::mul": [1_000_000] * 32})
        for _ in range(4):
            x + x
        torch.accelerator.synchronize()
        with torch.accelerator.Graph():
            print(multiply())
        print(multiply())
        """,
        OUTBOARD_DRIVER="ocl",
    )
    assert printed.splitlines() == ["['device']", "['shared']"]


def test_host_kernels_that_call_operators_wait_for_the_device(device, savings, shared_cpu):
    """layer_norm copies a strided input by itself; the copy must not still be on a queue."""
    savings({"copy": -5000, "pointwise": -5000, "aten::native_layer_norm": 9000})
    for _ in range(20):
        x = torch.rand(512, 256)
        weight, bias = torch.rand(512), torch.rand(512)
        on_device = x.to(device)
        result = torch.nn.functional.layer_norm(
            (on_device + 1).t(), (512,), weight.to(device), bias.to(device)
        )
        expected = torch.nn.functional.layer_norm((x + 1).t(), (512,), weight, bias)
        torch.testing.assert_close(result.cpu(), expected)


def test_policies_concern_only_the_host(device):
    x = torch.ones(3, device=device)
    with fallback.policy(shared="error", copied="error"):
        assert (x + x).tolist() == [2, 2, 2]
        with ways.way("host"), pytest.raises(NotImplementedError, match=r"aten::add"):
            x + x


def test_the_environment_sets_the_start(shares_memory):
    """The import reads no tables of operators."""
    printed = run_python(
        """
        import sys, torch, torch_outboard
        from torch_outboard import fallback

        print([name for name in sys.modules if name.startswith("torch_outboard.ops")])
        x = torch.ones(3, device=torch_outboard.device_name())
        with fallback.report() as report:
            x + x
        print([row.way for row in report.rows if row.op == "aten::add.Tensor"])
        """,
        OUTBOARD_WAY="host",
        OUTBOARD_FALLBACK_COPIED="allow",
    )
    host = "shared" if shares_memory else "copied"
    assert printed.splitlines() == ["[]", f"['{host}']"]


def test_a_wrong_setting_is_an_error(monkeypatch):
    monkeypatch.setenv("OUTBOARD_WAY", "sideways")
    with pytest.raises(ValueError, match=r"OUTBOARD_WAY.* is none of auto, device, host"):
        ways.configure_from_environment()
