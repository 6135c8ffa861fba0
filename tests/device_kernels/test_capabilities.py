"""Devices that lack something: float64, memory that the host can touch, pointers.

The settings belong to the driver `ocl`; each is tried in a process of its own.
"""

from __future__ import annotations

import pytest

import torch_outboard
from tests.device_kernels.processes import run_program

pytestmark = [
    pytest.mark.by_turns(3),
    pytest.mark.skipif(
        torch_outboard.device_name() != "ocl", reason="settings of the driver `ocl`"
    ),
]

POINTWISE = """
    import torch, torch_outboard
    from torch_outboard import fallback

    fallback.set_policy(copied="allow")
    device = torch.device(torch_outboard.device_name(), 0)
    properties = torch.get_device_module(device).get_device_properties(device)
    print(properties.host_access, properties.addressing)
    x, y = torch.randn(7, 33), torch.randn(33)
    a, b = x.to(device), y.to(device)
    with fallback.report() as report:
        c = torch.relu(a[:, 1:] * b[1:] + 1.0).t().contiguous()
        c[2:4].fill_(3)
        d = torch.where(c > 1, c.half(), c.half().neg())
    expected = torch.relu(x[:, 1:] * y[1:] + 1.0).t().contiguous()
    expected[2:4].fill_(3)
    expected = torch.where(expected > 1, expected.half(), expected.half().neg())
    torch.testing.assert_close(d.cpu(), expected)
    print(sorted({row.way for row in report.rows}), sum(row.copied_bytes for row in report.rows))
"""


@pytest.mark.parametrize(
    ("memory", "access"),
    [("shared", "coherent pointer"), ("coarse", "none pointer"), ("handles", "none handle")],
)
def test_kinds_of_memory(memory, access, shares_memory):
    if memory == "shared" and not shares_memory:
        pytest.skip("the device has no memory that the host can touch")
    printed = run_program(POINTWISE, OUTBOARD_OCL_MEMORY=memory)
    lines = printed.splitlines()
    assert lines[0] == access
    assert lines[1] == "['device'] 0"


def test_without_float64(shares_memory):
    printed = run_program(
        """
        import torch, torch_outboard
        from torch_outboard import fallback

        device = torch.device(torch_outboard.device_name(), 0)
        x = torch.arange(1, 8, dtype=torch.float32)
        with fallback.report() as report:
            y = 1.0 - x.to(device)
            z = (y * 0.5 + 2).exp().clamp(0.1, 100.0) / 3
            n = torch.arange(5).to(device) * 2.5
        torch.testing.assert_close(z.cpu(), ((1.0 - x) * 0.5 + 2).exp().clamp(0.1, 100.0) / 3)
        assert n.tolist() == [0, 2.5, 5, 7.5, 10]
        print({row.way for row in report.rows})
        assert "0." in str(z)
        wide = x.double().to(device)
        with fallback.report() as report:
            wider = wide * 2
            half = wide.half()
        print({row.way for row in report.rows if row.op == "aten::mul.Tensor"})
        assert wider.tolist() == (x.double() * 2).tolist()
        assert half.tolist() == x.half().tolist()
        assert wide.t().clone().tolist() == x.tolist()
        """,
        OUTBOARD_OCL_MASK="float64",
    )
    assert printed.splitlines() == ["{'device'}", str({"shared" if shares_memory else "copied"})]


@pytest.mark.parametrize(
    ("memory", "mask"),
    [
        ("handles", "float64,float16"),
        pytest.param("coarse", "subgroups,float64", marks=pytest.mark.slow),
    ],
)
def test_network_trains_natively_on_a_device_that_lacks_much(memory, mask):
    printed = run_program(
        """
        import copy, torch, torch_outboard
        from tests.device_kernels.small_models import MODELS
        from tests.device_kernels.ways.test_model_paths import train
        from torch_outboard import fallback

        fallback.set_policy(copied="allow")
        device = torch.device(torch_outboard.device_name(), 0)
        torch.manual_seed(0)
        make, draw = MODELS["LSTM"]
        model, batch = make(), draw()
        model.recurrent.dropout = 0.0
        on_device = copy.deepcopy(model).to(device)
        moved = tuple(tensor.to(device) for tensor in batch)
        with fallback.report() as report:
            losses = train(on_device, moved, 2)
        torch.testing.assert_close(torch.stack(losses).cpu(), torch.stack(train(model, batch, 2)))
        print({row.way for row in report.rows}, sum(row.copied_bytes for row in report.rows))
        """,
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_OCL_MASK=mask,
    )
    assert printed.strip() == "{'device'} 0"
