"""Ordinary memory of the host that is pinned where it lies."""

from __future__ import annotations

import pytest
import torch

from tests.support import run_python
from torch_outboard import _C

pytestmark = [pytest.mark.separate, pytest.mark.torture]


@pytest.fixture(autouse=True)
def registers(device: torch.device, device_module) -> None:
    probe = torch.zeros(1)
    if not device_module.register_host_memory(probe):
        pytest.skip("the driver cannot register memory of the host")
    device_module.unregister_host_memory(probe)


def test_registered_memory_is_pinned(device, device_module):
    x = torch.arange(1000.0)
    assert device_module.register_host_memory(x)
    assert x.is_pinned()
    assert x[500:].is_pinned()
    assert x.pin_memory().data_ptr() == x.data_ptr()
    assert not _C.is_pinned_address(x.data_ptr() - 1)
    assert not _C.is_pinned_address(x.data_ptr() + 4000)
    device_module.unregister_host_memory(x)
    assert not x.is_pinned()


def test_copies_go_from_and_to_it(device, device_module):
    """A tensor that is gone is still copied from: its memory stays until it is unregistered."""
    x, y = torch.full((1 << 20,), 3.0), torch.zeros(1 << 20)
    device_module.register_host_memory(x)
    device_module.register_host_memory(y)
    kept = x.untyped_storage()
    on_device = x.to(device, non_blocking=True)
    del x
    torch.full((1 << 20,), 5.0)
    y.copy_(on_device, non_blocking=True)
    torch.accelerator.synchronize()
    assert y.eq(3).all()
    assert on_device.cpu().eq(3).all()
    device_module.unregister_host_memory(torch.empty(0).set_(kept))
    device_module.unregister_host_memory(y)


def test_what_cannot_be_registered(device, device_module):
    x = torch.zeros(8)
    device_module.register_host_memory(x)
    for wrong in (
        x,
        x[4:],
        torch.empty(0),
        torch.zeros(8, device=device),
        x.new_empty(8).to_sparse(),
    ):
        with pytest.raises(ValueError, match=r"regist|pinned|strided"):
            device_module.register_host_memory(wrong)
    device_module.unregister_host_memory(x)
    for wrong in (x, torch.zeros(8)):
        with pytest.raises(ValueError, match="was not registered"):
            device_module.unregister_host_memory(wrong)


def test_driver_that_cannot(device) -> None:
    printed = run_python("""
        import torch, torch_outboard
        from torch_outboard.drivers import contract, host

        table = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
        for name in ("host_register", "host_unregister"):
            setattr(table, name, contract.FUNCTIONS[name]())
        torch_outboard.use_driver(table)
        x = torch.arange(4.0)
        print(torch.host.register_host_memory(x), x.is_pinned(), x.pin_memory().is_pinned())
        print(x.to("host", non_blocking=True).tolist())
    """, OUTBOARD_DRIVER="host")  # fmt: skip
    assert printed.splitlines() == ["False False True", "[0.0, 1.0, 2.0, 3.0]"]
