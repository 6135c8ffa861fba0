"""Compiled graphs run on the device in `auto`, wherever eager operators run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.utils import counters

from tests.inductor.support import skip_without_kernels
from torch_outboard import _C, fallback, placement
from torch_outboard.inductor.policy import placement_of_graphs

fails = False


def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator that calls another one, or raises."""
    if fails:
        raise KeyError("as it was told")
    return x + x


library = torch.library.Library("graph_placement", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", twice, "PrivateUse1")
torch.library.register_fake("graph_placement::twice", torch.empty_like, lib=library)


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.graph_placement.twice(x.sin()).cos()


def placement_of_add(call: Callable[[], object]) -> str:
    with fallback.report() as report:
        call()
    (found,) = {row.placement for row in report.rows if row.op == "aten::add.Tensor"}
    return found


@pytest.fixture(autouse=True)
def eager(device: torch.device) -> Iterator[str]:
    """Sets `auto`, and gives the placement of eager operators."""
    skip_without_kernels()
    with placement.use("auto", device):
        yield "device" if placement.runs_on_device(device) else "host"


def test_operators_that_graphs_call(device, eager, monkeypatch):
    """Eager operators run where they ran before, also after a graph that raises."""
    x, compiled = torch.randn(9, device=device), torch.compile(function)
    torch.testing.assert_close(compiled(x), function(x))
    assert placement_of_add(lambda: compiled(x)) == "device"
    assert placement_of_add(lambda: x + x) == eager
    monkeypatch.setitem(globals(), "fails", True)
    with pytest.raises(KeyError, match="as it was told"):
        compiled(x)
    assert placement_of_add(lambda: x + x) == eager


def test_captured_graphs(device, eager):
    """CPU kernels cannot be captured."""
    if not (hasattr(torch.accelerator, "Graph") and _C.captures_graphs()):
        pytest.skip("the driver, or this PyTorch, captures no graphs")
    counters.clear()
    x, compiled = torch.randn(9, device=device), torch.compile(function, mode="reduce-overhead")
    assert placement_of_add(lambda: [compiled(x) for _ in range(3)]) == "device"
    assert counters[device.type]["captured_graphs"] >= 1
    torch.testing.assert_close(compiled(x), function(x))
    assert placement_of_add(lambda: x + x) == eager


@pytest.mark.filterwarnings("ignore:torch.compile runs graphs of")
def test_the_setting_decides(device, shares_memory):
    on_host = "host" if shares_memory else "eager"
    for setting, expected in (("device", "device"), ("auto", "device"), ("host", on_host)):
        with placement.use(setting, device):
            assert placement_of_graphs(device.index) == expected
