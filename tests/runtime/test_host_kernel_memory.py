"""CPU memory that comes from the device's cache while a host kernel runs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
import torch

from tests.runtime.memory_checks import check_segments, check_statistics, stats
from tests.support import run_python
from torch_outboard import _C

pytestmark = [pytest.mark.by_turns(3), pytest.mark.separate, pytest.mark.torture]


@pytest.fixture
def scope(device: torch.device, shares_memory: bool) -> Iterator[_C._CpuKernelScope]:
    """A scope on the first device; what it made is gone at the end."""
    if not shares_memory:
        pytest.skip("host kernels do not run on memory that the host cannot touch")
    torch.empty(1, device=device)
    gc.collect()
    before = stats(device)["allocated_bytes.all.current"]
    yield _C._CpuKernelScope(device.index)
    gc.collect()
    assert stats(device)["allocated_bytes.all.current"] == before
    check_segments(device)
    check_statistics(device)


def test_a_scope_does_nothing_where_memory_is_separate(
    device: torch.device, shares_memory: bool
) -> None:
    if shares_memory:
        pytest.skip("memory is shared")
    torch.empty(1, device=device)
    with _C._CpuKernelScope(device.index):
        tensor = torch.ones(1000)
    assert _C.device_of_address(tensor.data_ptr()) == -1


def test_cpu_tensors_of_a_scope_are_device_memory(
    device: torch.device, scope: _C._CpuKernelScope
) -> None:
    before = stats(device)
    with scope:
        tensor = torch.arange(1000)
    during = stats(device)
    assert _C.device_of_address(tensor.data_ptr()) == device.index
    assert tensor.device.type == "cpu"
    assert during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 8192
    assert _C.device_of_address(torch.arange(1000).data_ptr()) == -1
    torch.testing.assert_close(tensor * 2, torch.arange(0, 2000, 2))


def test_a_tensor_that_grows_after_its_scope(scope: _C._CpuKernelScope) -> None:
    with scope:
        tensor = torch.arange(10)
    tensor.resize_(1000)
    assert _C.device_of_address(tensor.data_ptr()) == -1
    torch.testing.assert_close(tensor[:10], torch.arange(10))


def test_copy_on_write(scope: _C._CpuKernelScope) -> None:
    with scope:
        tensor = torch.arange(100)
    copy = torch._lazy_clone(tensor)
    copy.add_(1)
    torch.testing.assert_close(tensor, torch.arange(100))
    torch.testing.assert_close(copy, torch.arange(1, 101))


def test_zero_bytes(device: torch.device, scope: _C._CpuKernelScope) -> None:
    before = stats(device)
    with scope:
        tensor = torch.empty(0)
    assert tensor.numel() == 0
    assert stats(device) == before


def test_scopes_nest(device: torch.device, scope: _C._CpuKernelScope) -> None:
    with scope:
        with _C._CpuKernelScope(device.index):
            inner = torch.ones(10)
        outer = torch.ones(10)
    outside = torch.ones(10)
    found = [_C.device_of_address(t.data_ptr()) for t in (inner, outer, outside)]
    assert found == [device.index, device.index, -1]


def test_other_threads_are_not_in_the_scope(scope: _C._CpuKernelScope) -> None:
    made: list[torch.Tensor] = []
    with scope:
        thread = threading.Thread(target=lambda: made.append(torch.ones(1000)))
        thread.start()
        thread.join()
    assert _C.device_of_address(made[0].data_ptr()) == -1


def test_freeing_inside_and_outside(scope: _C._CpuKernelScope) -> None:
    outside = torch.ones(1000)
    with scope:
        inside = torch.ones(1000)
        address = inside.data_ptr()
        del outside, inside
        again = torch.ones(1000)
    assert again.data_ptr() == address
    thread = threading.Thread(target=[again].clear)
    del again
    thread.start()
    thread.join()


@pytest.mark.parametrize("allocate_inside", [True, False])
@pytest.mark.parametrize("deallocate_inside", [True, False])
def test_the_raw_interface(
    device: torch.device,
    scope: _C._CpuKernelScope,
    allocate_inside: bool,
    deallocate_inside: bool,
) -> None:
    before = stats(device)["allocated_bytes.all.current"]
    if allocate_inside:
        with scope:
            address = _C._raw_allocate_on_cpu(1000)
    else:
        address = _C._raw_allocate_on_cpu(1000)
    gained = stats(device)["allocated_bytes.all.current"] - before
    assert gained == (1024 if allocate_inside else 0)
    if deallocate_inside:
        with scope:
            _C._raw_deallocate_on_cpu(address)
    else:
        _C._raw_deallocate_on_cpu(address)
    assert stats(device)["allocated_bytes.all.current"] == before


def test_libraries_that_use_the_raw_interface(scope: _C._CpuKernelScope) -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 17, 3), torch.nn.ReLU(), torch.nn.ConvTranspose2d(17, 5, 3)
    )
    inputs = torch.randn(2, 3, 20, 20)
    expected = module(inputs)
    with scope:
        actual = module(inputs)
        actual.sum().backward()
    torch.testing.assert_close(actual, expected)
    module.zero_grad(set_to_none=True)


def test_out_of_memory_is_the_devices(device: torch.device, scope: _C._CpuKernelScope) -> None:
    total = torch.accelerator.get_memory_info(device.index)[1]
    with scope, pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.empty(total + 1, dtype=torch.uint8)
    assert torch.ones(10).sum() == 10


def test_a_scope_waits_for_work_of_other_threads_on_its_stream(device: torch.device) -> None:
    run_python(
        """
        import threading, time, torch
        import torch_outboard
        from torch_outboard import _C
        from torch_outboard.drivers import torture

        device = torch.device(torch._C._get_privateuse1_backend_name(), 0)
        if not _C.shares_host_memory(0):
            raise SystemExit
        source = torch.full((1 << 20,), 3, dtype=torch.uint8).pin_memory()
        torch.empty(1, device=device)
        torch.accelerator.synchronize()
        addresses = []

        def late_copy():
            # Freed here, while the copy into it starts 0.5 seconds late.
            torture.configure(delay_us=500_000)
            there = source.to(device, non_blocking=True)
            torture.configure(delay_us=0)
            addresses.append(there.data_ptr())

        with _C._CpuKernelScope(0):
            thread = threading.Thread(target=late_copy)
            thread.start()
            thread.join()
            tensor = torch.zeros(1 << 20, dtype=torch.uint8)
            assert tensor.data_ptr() == addresses[0]
        time.sleep(0.8)
        assert not tensor.any(), "work given to the stream earlier wrote over it"
        """,
        OUTBOARD_TORTURE="count",
    )


def test_a_forked_child_frees_its_own_memory_alone(device: torch.device) -> None:
    run_python(
        """
        import os, torch
        from torch_outboard import _C

        device = torch.device(torch._C._get_privateuse1_backend_name(), 0)
        torch.empty(1, device=device)
        if not _C.shares_host_memory(0):
            raise SystemExit
        outside = _C._raw_allocate_on_cpu(1000)
        with _C._CpuKernelScope(0):
            inside = _C._raw_allocate_on_cpu(1000)
            tensor = torch.arange(1000)
        child = os.fork()
        if child == 0:
            _C._raw_deallocate_on_cpu(outside)
            _C._raw_deallocate_on_cpu(inside)
            assert tensor.sum() == 499500
            del tensor
            _C._raw_deallocate_on_cpu(_C._raw_allocate_on_cpu(1000))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert tensor.sum() == 499500
        """
    )
