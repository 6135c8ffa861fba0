"""Devices, their indices, threads and processes."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.testing._internal.common_dtype import get_all_dtypes

from tests.support import run_python

pytestmark = [pytest.mark.separate, pytest.mark.torture]
accelerator = torch.accelerator
two = pytest.mark.skipif("accelerator.device_count() < 2", reason="there is one device")


@pytest.fixture(autouse=True)
def first_device():
    yield
    accelerator.set_device_index(0)


@two
def test_tensors_follow_the_current_device(device):
    for index in range(accelerator.device_count()):
        accelerator.set_device_index(index)
        x = torch.randn(5, 5, device=device.type)
        assert x.device.index == index
        assert torch.matmul(x, x).sum().device.index == index
        assert accelerator.current_device_index() == index


@two
def test_errors_leave_the_current_device(device):
    def fail():
        with accelerator.device_index(1):
            assert torch.empty(1, device=device.type).device.index == 1
            with accelerator.device_index(0):
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert accelerator.current_device_index() == 0
    x, smaller = torch.ones(5, 5, device=device), torch.ones(3, 3, device=device)
    with pytest.raises(RuntimeError):
        torch.matmul(x, smaller)
    assert accelerator.current_device_index() == 0
    assert torch.matmul(x, x).sum() == 125


def test_every_dtype_is_supported_for_storage(device):
    first = accelerator.get_device_capability(device)["supported_dtypes"]
    expected = set(get_all_dtypes(include_complex32=True, include_qint=True))
    assert expected <= first
    last = torch.device(device.type, accelerator.device_count() - 1)
    assert accelerator.get_device_capability(last)["supported_dtypes"] == first


@two
def test_threads_have_their_own_devices(device):
    barrier = threading.Barrier(4)
    wrong = []

    def work(index):
        barrier.wait()
        for _ in range(50):
            accelerator.set_device_index(index)
            x = torch.randn(10, 10, device=device.type)
            total = torch.matmul(x, x).sum()
            found = (accelerator.current_device_index(), x.device.index, total.device.index)
            if found != (index, index, index):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_spawned_processes_use_the_device(device, tmp_path):
    program = tmp_path / "spawning.py"
    program.write_text(
        f"""
import multiprocessing
import torch

def work(queue):
    torch.accelerator.set_device_index(0)
    x = torch.ones(10, 10, device="{device.type}")
    queue.put(torch.matmul(x, x).sum().item())

if __name__ == "__main__":
    torch.{device.type}.init()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    print(queue.get(timeout=100))
    child.join()
"""
    )
    out = run_python(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')")
    assert out.strip() == "1000.0"


def test_initializing_again_in_a_forked_child(device):
    out = run_python(
        f"""
        import os, torch
        torch.{device.type}.init()
        if os.fork() == 0:
            try:
                torch.{device.type}.init()
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        """
    )
    assert "forked child" in out
    assert "spawn" in out
