"""The choice between the kit's device kernels and its host kernels."""

from __future__ import annotations

import pytest
import torch

import torch_outboard
from tests.device_kernels.conftest import ways_of
from tests.device_kernels.processes import run_program
from tests.support import run_python, try_python
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


def test_auto_asks_the_kind_of_device(device, device_module, shares_memory):
    """A few calls are not worth compiling for on a CPU."""
    properties = device_module.get_device_properties(device)
    expected = "shared" if shares_memory and properties.kind == "cpu" else "device"
    with ways.way("auto"):
        assert way_of_add(device) == expected


def test_without_a_table_auto_means_the_device(device, savings):
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


def test_calls_that_balance_each_other_change_nothing(device, savings, shared_cpu):
    savings({"aten::add": -1000, "aten::mul": 1000})
    x = torch.ones(3, device=device)
    for _ in range(3 * LATER):
        x * x
        assert way_of_add(device) == "shared"


def test_what_is_not_measured_goes_with_the_program(device, savings, shared_cpu):
    savings({"aten::add": -1000})
    x = torch.ones(3, device=device)
    for way, calls in (("shared", FIRST), ("device", 0)):
        with fallback.report() as report:
            x * x
        assert ways_of(report) == {"aten::mul.Tensor": way}
        ways_of_adds(device, calls)


def test_an_operator_goes_before_its_family(device, savings, shared_cpu):
    savings({"aten::add": 0, "pointwise": -1000})
    assert set(ways_of_adds(device, LATER)) == {"shared"}
    x = uncounted_ones(device)
    for _ in range(FIRST):
        x * x
    assert way_of_add(device) == "device"


def test_the_number_of_elements_counts(device, savings, shared_cpu):
    savings({})
    _C.set_way_savings(device.index, {"aten::add": [0] * 3 + [-1_000_000] * 29})
    assert set(ways_of_adds(device, LATER)) == {"shared"}  # 3 elements
    x = torch.ones(4, device=device)
    for _ in range(FIRST):
        x + x
    assert way_of_add(device) == "device"
    assert not torch.ones(1 << 20, device=device).add(1).isnan().any()


def test_lists_count_all_of_their_tensors(device, savings, shared_cpu):
    savings({})
    _C.set_way_savings(device.index, {"aten::_foreach_add": [0] * 4 + [-1_000_000] * 28})
    for length, expected in ((2, "shared"), (3, "device")):
        x = [torch.ones(3, device=device) for _ in range(length)]
        for _ in range(FIRST):
            with fallback.report() as report:
                torch._foreach_add_(x, 1.0)
        assert set(ways_of(report).values()) == {expected}, length
        assert [t.tolist() for t in x] == [[1.0 + FIRST] * 3] * length


def test_deterministic_programs_stay_on_their_side(device, savings, shared_cpu):
    savings({"aten::add": -1000})
    torch.use_deterministic_algorithms(True)
    try:
        assert set(ways_of_adds(device, LATER)) == {"shared"}
    finally:
        torch.use_deterministic_algorithms(False)
    assert way_of_add(device) == "device"


@pytest.mark.parametrize("side", ["device", "host"])
def test_a_program_that_is_put_on_a_side_is_held_there(device, savings, shared_cpu, side: str):
    """Until the other one would have saved much more than it takes otherwise."""
    way, saved = ("device", 1000) if side == "device" else ("shared", -1000)
    savings({"aten::add": saved})
    _C.put_program_on_side(device.index, side)
    assert set(ways_of_adds(device, 10 * LATER)) == {way}
    _C.put_program_on_side(device.index, side)  # as each call of a graph does
    balance = (_C.WAY_HOLD + _C.WAY_PATIENCE) // 1_000_000
    *held, last = ways_of_adds(device, balance)
    assert set(held) == {way} != {last}


def test_a_program_whose_side_is_forgotten_begins_anew(device, savings, shared_cpu):
    savings({"aten::add": -1000})
    _C.put_program_on_side(device.index, "device")
    assert way_of_add(device) == "device"
    _C.forget_side(device.index)
    assert ways_of_adds(device, FIRST) == ["shared"] * (FIRST - 1) + ["device"]


def test_only_auto_puts_programs_on_sides(device, savings, shared_cpu):
    savings({})
    with ways.way("host", device):
        _C.put_program_on_side(device.index, "device")
    assert way_of_add(device) == "shared"
    torch.use_deterministic_algorithms(True)
    try:
        _C.put_program_on_side(device.index, "device")
        assert way_of_add(device) == "shared"
    finally:
        torch.use_deterministic_algorithms(False)


def test_sides_that_do_not_exist(device):
    with pytest.raises(ValueError, match="'host' or of the 'device', not of 'auto'"):
        _C.put_program_on_side(device.index, "auto")
    with pytest.raises(RuntimeError, match="99"):
        _C.forget_side(99)


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


def test_forced_ways_do_not_count(device, savings, shared_cpu):
    savings({"aten::add": -1000})
    for way in ("device", "host"):
        with ways.way(way, device):
            ways_of_adds(device, LATER)
    assert way_of_add(device) == "shared"


def test_a_call_counts_once_whether_or_not_somebody_watches(device, savings, shared_cpu):
    """Typed host kernels decide by themselves where nobody does."""
    savings({"aten::add": -1000})
    x = torch.ones(3, device=device)
    for _ in range(FIRST - 2):
        x + x
    assert ways_of_adds(device, 2) == ["shared", "device"]
    savings({"aten::add": -1000, "aten::mul": 1000})
    ways_of_adds(device, FIRST)
    for _ in range(LATER - 1):
        x * x
    assert way_of_add(device) == "device"


def test_a_call_counts_once_where_several_kernels_could_serve_it(device, savings, shared_cpu):
    x, weight = torch.ones(2, 3, 4, 4), torch.ones(3)
    x, weight = x.to(device), weight.to(device)

    def way_of_batch_norm() -> str:
        with fallback.report() as report:
            torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
        return ways_of(report)["aten::native_batch_norm"]

    savings({"aten::native_batch_norm": -1000})
    assert [way_of_batch_norm() for _ in range(FIRST)] == ["shared"] * (FIRST - 1) + ["device"]


def test_only_operators_with_a_device_kernel_have_ways(device):
    torch.ones(3, device=device).sin()
    assert _C.has_ways("aten::add.Tensor")
    assert not _C.has_ways("aten::_linalg_det.result")


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


def test_the_old_way_comes_back_after_an_error(device):
    with pytest.raises(KeyError), ways.way("host"):
        raise KeyError
    assert ways.get_way() == "device"


def test_no_such_way(device):
    for name in ("", "gpu", "Device"):
        with pytest.raises(ValueError, match="use 'auto', 'device' or 'host'"):
            ways.set_way(name)
        with pytest.raises(ValueError, match="use 'auto', 'device' or 'host'"), ways.way(name):
            pass


def test_policies_concern_only_the_host(device):
    x = torch.ones(3, device=device)
    with fallback.policy(shared="error", copied="error"):
        assert (x + x).tolist() == [2, 2, 2]
        with ways.way("host"), pytest.raises(NotImplementedError, match=r"aten::add"):
            x + x


def test_users_kernels_do_not_care(device, savings):
    savings({"pointwise": 1000})
    x = torch.ones(2, device=device)
    for way in ("auto", "host"):
        with ways.way(way), torch_outboard.kernel("aten::neg")(lambda x: x.clone()):
            assert torch.neg(x).tolist() == [1, 1], way
        assert torch.neg(x).tolist() == [-1, -1]


def test_a_declined_call_goes_on(device):
    """An integer to a negative power is an error that CPU knows."""
    x = torch.full((3,), 2, device=device)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-1
    with fallback.report() as report:
        torch.linalg.det(torch.eye(2, device=device))
    assert "device" not in {row.way for row in report.rows if "linalg" in row.op}


WAY = """
    import torch, torch_outboard
    from torch_outboard import fallback

    x = torch.ones(3, device=torch_outboard.device_name())
    with fallback.report() as report:
        x + x
    print([row.way for row in report.rows if row.op == "aten::add.Tensor"])
"""


@pytest.mark.parametrize("way", ["device", "host"])
def test_the_environment_sets_the_start(shares_memory, way):
    printed = run_python(WAY, OUTBOARD_WAY=way, OUTBOARD_FALLBACK_COPIED="allow")
    host = "shared" if shares_memory else "copied"
    assert printed.split() == [f"['{'device' if way == 'device' else host}']"]


def test_a_wrong_setting_is_the_error_of_the_first_use():
    result = try_python(WAY, OUTBOARD_WAY="sideways")
    assert result.returncode != 0
    assert "OUTBOARD_WAY" in result.stderr
    assert "is none of auto, device, host" in result.stderr


def test_import_reads_no_tables():
    printed = run_python("""
        import sys, torch, torch_outboard
        print([name for name in sys.modules if name.startswith("torch_outboard.ops")])
    """)
    assert printed.strip() == "[]"
