"""Compiled graphs run on the device in `auto`, and eager operators with them."""

import pytest

from tests.inductor.support import skip_without_kernels
from tests.support import run_python
from torch_outboard import _C, placement
from torch_outboard.inductor.target import placement_of_graphs


def test_a_compiled_graph_takes_eager_operators_to_the_device():
    """In a process of its own, since a graph is compiled once and for all."""
    skip_without_kernels()
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import fallback, placement

        def where(call):
            with fallback.report() as report:
                call()
            return {row.placement for row in report.rows if row.op == "aten::add.Tensor"}

        x = torch.randn(9, device=torch_outboard.device_name())
        assert where(lambda: x + x) == {"device" if placement.runs_on_device() else "host"}
        compiled = torch.compile(lambda x: x.sin().cos())
        torch.testing.assert_close(compiled(x).cpu(), x.cpu().sin().cos())
        print(placement.get_placement(), *where(lambda: x + x))
        with placement.use("host"):
            print(*where(lambda: x + x))
        """,
        OUTBOARD_PLACEMENT="auto",
        OUTBOARD_FALLBACK_COPIED="allow",
    )
    on_host = "host" if _C.shares_host_memory(0) else "copied"
    assert printed.splitlines() == ["auto device", on_host]


@pytest.mark.filterwarnings("ignore:torch.compile runs graphs of")
def test_the_setting_decides(device, shares_memory):
    skip_without_kernels()
    on_host = "host" if shares_memory else "eager"
    for setting, expected in (("device", "device"), ("auto", "device"), ("host", on_host)):
        with placement.use(setting, device):
            assert placement_of_graphs(device.index) == expected
