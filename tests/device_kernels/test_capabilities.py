"""Devices that lack something: float64, memory that the host can touch, pointers.

The settings belong to the driver `ocl`; each is tried in a separate process.
"""

import pytest

import torch_outboard
from tests.device_kernels.processes import run_program

pytestmark = [
    pytest.mark.by_turns(3),
    pytest.mark.skipif(
        torch_outboard.device_name() != "ocl", reason="settings of the driver `ocl`"
    ),
]


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
        print({row.placement for row in report.rows})
        assert "0." in str(z)
        wide, rate = x.double().to(device), torch.full((500,), 25.0, device=device)
        with fallback.report() as report:
            wider = wide * 2
            half = wide.half()
            drawn = torch.poisson(rate)  # by float64
        on_host = ("aten::mul.Tensor", "aten::poisson")
        print({row.placement for row in report.rows if row.op in on_host})
        assert 24 < drawn.mean().item() < 26
        assert wider.tolist() == (x.double() * 2).tolist()
        assert half.tolist() == x.half().tolist()
        assert wide.t().clone().tolist() == x.tolist()
        """,
        OUTBOARD_OCL_MASK="float64",
    )
    assert printed.splitlines() == ["{'device'}", str({"host" if shares_memory else "copied"})]


@pytest.mark.parametrize(
    ("memory", "mask", "access"),
    [
        ("handles", "float64,float16", "none handle"),
        ("coarse", "subgroups,float64", "none pointer"),
    ],
)
def test_network_trains_natively_on_a_device_that_lacks_much(memory, mask, access):
    printed = run_program(
        """
        import copy, torch, torch_outboard
        from tests.device_kernels.test_model_paths import MODELS, train
        from torch_outboard import fallback

        fallback.set_policy(copied="allow")
        device = torch.device(torch_outboard.device_name(), 0)
        properties = torch.get_device_module(device).get_device_properties(device)
        print(properties.host_access, properties.addressing)
        torch.manual_seed(0)
        make, draw = MODELS["encoder"]
        model, batch = make(), draw()
        on_device = copy.deepcopy(model).to(device)
        there = [tensor.to(device) for tensor in batch]
        with fallback.report() as report:
            losses = train(on_device, there, 2)
        torch.testing.assert_close(losses.cpu(), train(model, batch, 2))
        print({row.placement for row in report.rows}, sum(row.copied_bytes for row in report.rows))
        """,
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_OCL_MASK=mask,
    )
    assert printed.splitlines() == [access, "{'device'} 0"]
