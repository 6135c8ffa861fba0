"""DLPack, and tensors of host and device over the same memory."""

import gc

import numpy
import pytest
import torch
from torch.utils import dlpack

import torch_outboard
from torch_outboard import _C

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


@pytest.fixture
def shared(shares_memory: bool) -> None:
    if not shares_memory:
        pytest.skip("host and device do not share memory here")


# ---- The protocol


def test_tensors_name_their_device(device):
    x = torch.arange(3.0, device=device)
    assert x.__dlpack_device__() == (dlpack.DLDeviceType.kDLExtDev, 0)
    assert torch.ones(1).__dlpack_device__() == (dlpack.DLDeviceType.kDLCPU, 0)
    y = torch.from_dlpack(x)
    assert y.device == device
    assert y.data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    assert torch.from_dlpack(torch.ones(2), device=device).device == device
    with pytest.raises(ValueError, match="Unknown device type meta"):
        torch.ones(1, device="meta").__dlpack_device__()

    class Other(torch.Tensor):
        def __dlpack_device__(self):
            return (1, 2)

    assert x.as_subclass(Other).__dlpack_device__() == (1, 2)


# ---- Capsules


def test_capsule_round_trip(device):
    for dtype in DTYPES:
        x = torch.arange(24).reshape(4, 6).to(dtype).to(device)[1:, ::2]
        y = dlpack.from_dlpack(dlpack.to_dlpack(x))
        assert (y.device, y.dtype, y.stride()) == (device, dtype, x.stride())
        assert y.data_ptr() == x.data_ptr()
        torch.testing.assert_close(y, x)
        y.zero_()
        assert not x.any().item()


def test_capsules_hold_memory(device, device_module):
    gc.collect()  # tensors of tests before
    device_module.synchronize()
    before = device_module.memory_allocated()
    capsule = dlpack.to_dlpack(torch.arange(1000.0, device=device))
    gc.collect()
    torch.zeros(1000, device=device)
    y = dlpack.from_dlpack(capsule)
    torch.testing.assert_close(y.cpu(), torch.arange(1000.0))
    with pytest.raises(RuntimeError):  # a capsule is used once
        dlpack.from_dlpack(capsule)
    del y
    assert device_module.memory_allocated() == before
    unused = dlpack.to_dlpack(torch.empty(1 << 20, device=device))
    assert device_module.memory_allocated() > before
    del unused
    gc.collect()
    assert device_module.memory_allocated() == before
    with pytest.raises(BufferError, match="gradient"):
        torch.ones(2, device=device, requires_grad=True).__dlpack__()


# ---- The same memory on the host


@pytest.mark.faults
@pytest.mark.usefixtures("shared")
def test_as_cpu(device):
    for dtype in DTYPES:
        x = torch.arange(24).reshape(4, 6).to(dtype).to(device)
        host = torch_outboard.as_cpu(x[1:, ::2])
        assert (host.device.type, host.dtype, host.stride()) == ("cpu", dtype, (6, 2))
        torch.testing.assert_close(host, x.cpu()[1:, ::2])
        host.zero_()
        assert not x[1:, ::2].any().item()
        x.fill_(1)
        torch.get_device_module(device).synchronize()
        assert host.all().item()


@pytest.mark.usefixtures("shared")
def test_what_as_cpu_keeps(device, device_module):
    device_module.synchronize()
    before = device_module.memory_allocated()
    host = torch_outboard.as_cpu(torch.arange(1000.0, device=device))
    gc.collect()
    torch.zeros(1000, device=device)
    torch.testing.assert_close(host, torch.arange(1000.0))
    del host
    assert device_module.memory_allocated() == before
    z = torch.randn(5, dtype=torch.complex64).to(device)
    torch.testing.assert_close(torch_outboard.as_cpu(z.conj().imag), z.cpu().conj().imag)
    assert not torch_outboard.as_cpu(z.requires_grad_()).requires_grad
    cpu = torch.ones(2)
    assert torch_outboard.as_cpu(cpu) is cpu


@pytest.mark.separate
def test_as_cpu_on_separate_memory(device, shares_memory):
    if shares_memory:
        pytest.skip("host and device share memory here")
    with pytest.raises(NotImplementedError, match=r"tensor\.cpu\(\)"):
        torch_outboard.as_cpu(torch.ones(2, device=device))
    with pytest.raises(NotImplementedError, match=r"tensor\.to\(device\)"):
        torch_outboard.from_cpu(torch.ones(2))


def test_wrong_tensors(device):
    with pytest.raises(ValueError, match=r"'meta'|on meta"):
        torch_outboard.as_cpu(torch.ones(2, device="meta"))
    with pytest.raises(ValueError, match="sparse"):
        torch_outboard.from_cpu(torch.eye(2).to_sparse())
    with pytest.raises(ValueError, match="CPU tensor"):
        torch_outboard.from_cpu(torch.ones(2, device=device))


@pytest.fixture
def adopts(device) -> None:
    if not _C.adopts_host_memory(0):
        pytest.skip("the device cannot use the host's memory here")


@pytest.mark.faults
@pytest.mark.usefixtures("adopts")
def test_from_cpu(device):
    for dtype in DTYPES:
        host = torch.arange(24).reshape(4, 6).to(dtype)
        x = torch_outboard.from_cpu(host.t()[1:], device)
        assert x.device == device
        assert x.data_ptr() == host.t()[1:].data_ptr()
        torch.testing.assert_close(x.cpu(), host.t()[1:])
        x.zero_()
        torch.get_device_module(device).synchronize()
        assert not host[:, 1:].any().item()
    array = numpy.arange(10.0)
    x = torch_outboard.from_cpu(torch.from_numpy(array), device)
    x.mul_(2)
    assert array.tolist() == [2.0 * i for i in range(10)]
    assert torch_outboard.as_cpu(x).data_ptr() == array.__array_interface__["data"][0]
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)


@pytest.mark.faults
@pytest.mark.usefixtures("adopts")
def test_from_cpu_is_counted_and_freed(device, device_module):
    device_module.synchronize()
    before = device_module.memory_allocated()
    x = torch_outboard.from_cpu(torch.arange(1 << 16, dtype=torch.uint8), device)
    assert device_module.memory_allocated() == before + (1 << 16)
    other = torch.ones_like(x)
    other.copy_(x, non_blocking=True)
    del x
    device_module.synchronize()
    torch.testing.assert_close(other.cpu(), torch.arange(1 << 16, dtype=torch.uint8))
    del other
    assert device_module.memory_allocated() == before
