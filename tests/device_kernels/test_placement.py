"""Where operators run: by kind of device and memory, or by a setting."""

import threading

import pytest
import torch
from torch.nn.functional import layer_norm

from tests.device_kernels.conftest import placements_of
from tests.device_kernels.launches import timed_launches
from tests.support import run_python
from torch_outboard import fallback, placement


def placement_of_add(device: torch.device) -> str:
    x = torch.ones(3, device=device)
    with fallback.report() as report:
        x + x
    return placements_of(report)["aten::add.Tensor"]


@pytest.fixture
def on_host(shares_memory: bool) -> str:
    """The placement of CPU kernels."""
    return "host" if shares_memory else "copied"


def test_a_placement_for_a_block(device, on_host):
    assert placement.get_placement(device) == "device"
    assert placement_of_add(device) == "device"
    with placement.use("host"):
        assert placement.get_placement(device) == "host"
        assert placement_of_add(device) == on_host
        with placement.use("device", device):
            assert placement_of_add(device) == "device"
        assert placement_of_add(device) == on_host
    assert placement_of_add(device) == "device"
    with pytest.raises(KeyError), placement.use("host"):
        raise KeyError
    assert placement.get_placement() == "device"
    for name in ("", "gpu", "Device"):
        with pytest.raises(ValueError, match="use one of 'auto', 'device', 'host'"):
            placement.set_placement(name)
        with (
            pytest.raises(ValueError, match="use one of 'auto', 'device', 'host'"),
            placement.use(name),
        ):
            pass


def test_the_setting_holds_in_all_threads(device, on_host):
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(placement_of_add(device)))
    with placement.use("host"):
        thread.start()
        thread.join()
    assert found == [on_host]


def test_auto_goes_by_kind_of_device_and_memory(device, device_module, shares_memory):
    kind = device_module.get_device_properties(device).kind
    on_device = not (shares_memory and kind == "cpu")
    with placement.use("auto"):
        assert placement.runs_on_device(device) == on_device
        assert placement_of_add(device) == ("device" if on_device else "host")


SEPARATE = {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_OCL_MEMORY": "handles"}


@pytest.mark.parametrize(
    ("setting", "memory", "expected"),
    [("host", {}, None), (None, SEPARATE, "device"), ("host", SEPARATE, "copied")],
)
def test_the_environment_sets_the_start(setting, memory, expected, on_host):
    """The default is `auto`, and the import reads no tables of operators."""
    printed = run_python(
        """
        import sys, torch, torch_outboard
        from torch_outboard import fallback, placement

        print([name for name in sys.modules if name.startswith("torch_outboard.ops")])
        x = torch.ones(3, device=torch_outboard.device_name())
        with fallback.report() as report:
            x + x
        print(placement.get_placement())
        print([row.placement for row in report.rows if row.op == "aten::add.Tensor"])
        """,
        OUTBOARD_PLACEMENT=setting,
        OUTBOARD_FALLBACK_COPIED="allow",
        **memory,
    )
    assert printed.splitlines() == ["[]", setting or "auto", str([expected or on_host])]


def test_a_wrong_setting_is_an_error(monkeypatch):
    monkeypatch.setenv("OUTBOARD_PLACEMENT", "sideways")
    with pytest.raises(ValueError, match=r"OUTBOARD_PLACEMENT.* is not one of auto, device, host"):
        placement.configure_from_environment()


def test_cpu_kernels_that_call_operators_enqueue_nothing(device, shares_memory, timed):
    """layer_norm copies a strided input by itself, which the queue may still have to write."""
    if not shares_memory:
        pytest.skip("the host does not reach the device's memory")
    for _ in range(20):
        x, weight, bias = torch.rand(512, 256), torch.rand(512), torch.rand(512)
        there = [tensor.to(device) for tensor in (x, weight, bias)]
        timed_launches(device)
        moved = there[0] + 1
        with placement.use("host"):
            result = layer_norm(moved.t(), (512,), *there[1:])
        assert len(timed_launches(device)) == 1  # the addition
        expected = layer_norm((x + 1).t(), (512,), weight, bias)
        torch.testing.assert_close(result.cpu(), expected)


def test_policies_concern_only_the_host(device):
    x = torch.ones(3, device=device)
    with fallback.policy(host="error", copied="error"):
        assert (x + x).tolist() == [2, 2, 2]
        with placement.use("host"), pytest.raises(NotImplementedError, match=r"aten::add"):
            x + x
