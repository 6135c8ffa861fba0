"""The choice between the kit's device kernels and its host kernels."""

from __future__ import annotations

import pytest
import torch

import torch_outboard
from tests.device_kernels.conftest import ways_of
from tests.support import run_python, try_python
from torch_outboard import fallback, ways


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
    properties = device_module.get_device_properties(device)
    expected = "shared" if shares_memory and properties.kind == "cpu" else "device"
    with ways.way("auto"):
        assert way_of_add(device) == expected


def test_the_old_way_comes_back_after_an_error(device):
    with pytest.raises(KeyError), ways.way("host"):
        raise KeyError
    assert ways.get_way() == "device"


@pytest.mark.parametrize("name", ["", "gpu", "Device"])
def test_no_such_way(device, name):
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


def test_users_kernels_do_not_care(device):
    with ways.way("host"), torch_outboard.kernel("aten::neg")(lambda x: x.clone()):
        assert torch.neg(torch.ones(2, device=device)).tolist() == [1, 1]


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
    assert "'auto', 'device' or 'host'" in result.stderr


def test_import_reads_no_tables():
    printed = run_python("""
        import sys, torch, torch_outboard
        print([name for name in sys.modules if name.startswith("torch_outboard.ops")])
    """)
    assert printed.strip() == "[]"
