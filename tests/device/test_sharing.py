"""Device tensors in other processes, over shared memory of the host or of the device."""

import os
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing as mp

import torch_outboard
from torch_outboard import _C

TIMEOUT = 120  # seconds; a child has to import PyTorch first


def synchronize() -> None:
    torch.get_device_module(torch_outboard.device_name()).synchronize()


# ---- What children do


def double(x: torch.Tensor) -> tuple[str, bool, float]:
    x.mul_(2)
    synchronize()
    return str(x.device), x.requires_grad, x.sum().item()


def fill_first(pair: tuple[torch.Tensor, torch.Tensor]) -> tuple[bool, list[float]]:
    a, b = pair
    a.fill_(7)
    synchronize()
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr(), b.tolist()


def make(count: int) -> torch.Tensor:
    return torch.arange(float(count), device=torch_outboard.device_name())


def send_back(x: torch.Tensor) -> torch.Tensor:
    return x


def say_received(_: torch.Tensor) -> str:
    return "received"


def look(_: None) -> list[float]:
    """The present content of the last result."""
    synchronize()
    return KEPT[-1].tolist()


def double_later(_: None) -> float:
    """Twice the sum of what was received last."""
    return KEPT[-2].mul_(2).sum().item()


KEPT: list = []  # of a child: what it received last, and its answer; not where it sends back


def work(inbox: mp.Queue, outbox: mp.Queue) -> None:
    for function, given in iter(inbox.get, None):
        answer = function(given)
        if function is send_back:
            KEPT.clear()
        elif given is not None:
            KEPT[:] = [given, answer]
        outbox.put(answer)
        del given, answer


Ask = Callable[[Callable, object], object]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Gives a function of one's own and its argument to a process, and returns its answer."""
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(inbox, outbox), daemon=True)
    process.start()

    def ask(function: Callable, given: object) -> object:
        inbox.put((function, given))
        del given  # what the caller does not hold is the queue's alone
        return outbox.get(timeout=TIMEOUT)

    try:
        yield ask
        inbox.put(None)
        process.join(TIMEOUT)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


@pytest.fixture
def shares(device: torch.device) -> None:
    if not (_C.adopts_host_memory(device.index) or _C.shares_with_processes()):
        pytest.skip("the device's memory cannot be shared with other processes here")


# ---- Sharing


@pytest.mark.separate
@pytest.mark.faults
@pytest.mark.usefixtures("shares")
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_child_writes_into_the_same_memory(device, ask, strategy):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    try:
        x = torch.arange(4.0, device=device).requires_grad_()
        view = x.detach()[1:]
        assert ask(double, x.detach()) == (str(device), False, 12.0)
        assert view.tolist() == [2.0, 4.0, 6.0]
        view.fill_(1)
        assert x.tolist() == [0.0, 1.0, 1.0, 1.0]
        x = torch.zeros(6, device=device)
        assert ask(fill_first, (x[:3], x[2:])) == (True, [7.0, 0.0, 0.0, 0.0])
        assert x.tolist() == [7.0, 7.0, 7.0, 0.0, 0.0, 0.0]
    finally:
        mp.set_sharing_strategy(before)


@pytest.mark.separate
@pytest.mark.usefixtures("shares")
def test_child_gives_a_tensor(device, ask):
    x = ask(make, 5)
    assert x.device == device
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    x.add_(1)
    synchronize()
    assert ask(look, None) == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.separate
@pytest.mark.usefixtures("shares")
def test_what_comes_back_is_the_same_storage(device, ask):
    x = torch.ones(3, device=device)
    assert ask(send_back, x).untyped_storage()._cdata == x.untyped_storage()._cdata
    empty = ask(send_back, torch.empty(0, 3, device=device))
    assert (empty.device, empty.shape) == (device, (0, 3))
    # One that dies between sending and receiving.
    y = ask(send_back, torch.arange(5.0, device=device))
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    del y
    torch.get_device_module(device.type).ipc_collect()


@pytest.mark.usefixtures("shares")
def test_sent_memory_is_given_back(device, device_module):
    synchronize()
    before = device_module.memory_allocated()
    x = torch.ones(1 << 20, device=device)
    ForkingPickler.dumps(x)
    assert device_module.memory_allocated() == before + 4 * (1 << 20)
    del x
    assert device_module.memory_allocated() == before


@pytest.mark.separate
@pytest.mark.faults
@pytest.mark.usefixtures("shares")
def test_receiver_keeps_what_the_sender_lets_go(device, ask):
    x = torch.arange(1000.0, device=device)
    assert ask(say_received, x) == "received"
    del x
    torch.accelerator.empty_cache()
    torch.full((1000,), 7.0, device=device)
    assert ask(double_later, None) == 2 * sum(range(1000))


@pytest.mark.separate
def test_sent_storage_stays_where_it_moved_to(device):
    """The second time, nothing moves."""
    if _C.adopts_host_memory(device.index) or not _C.shares_with_processes():
        pytest.skip("the device does not export its memory here")
    x = torch.arange(4.0, device=device)
    view = x[1:]
    files = []
    for _ in range(2):
        descriptor, _ = _C.export_storage(x.untyped_storage())
        files.append(os.fstat(descriptor).st_ino)
        os.close(descriptor)
        files.append(x.data_ptr())
    assert files[:2] == files[2:]
    x.add_(1)
    assert view.tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match="empty storage"):
        _C.export_storage(torch.empty(0, device=device).untyped_storage())
    with pytest.raises(ValueError, match="is not shared memory of 64 bytes"):
        _C.import_storage(device.index, 0, 64, b"")


# ---- Where it cannot work


def test_error_where_memory_cannot_be_shared(device, monkeypatch):
    """A queue pickles in a separate thread, and the receiver would wait for ever."""
    for name in ("adopts_host_memory", "shares_with_processes"):
        monkeypatch.setattr(_C, name, lambda *_: False)
    x = torch.ones(2, device=device)
    with pytest.raises(RuntimeError, match=r"send tensor\.cpu\(\) instead"):
        ForkingPickler.dumps(x)
    queue = mp.get_context("spawn").Queue()
    queue.put(x)
    with pytest.raises(RuntimeError, match=r"send tensor\.cpu\(\) instead"):
        queue.get(timeout=TIMEOUT)


def test_cpu_tensors_are_sent_as_before(ask):
    x = torch.arange(3.0)
    assert ask(send_back, x).tolist() == [0.0, 1.0, 2.0]
    assert x.is_shared()
