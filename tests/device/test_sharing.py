"""Device tensors in other processes, over shared memory of the host or of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.multiprocessing as mp

import torch_outboard
from torch_outboard import _C

pytestmark = [pytest.mark.by_turns(4), pytest.mark.separate, pytest.mark.torture]

TIMEOUT = 120  # seconds; a child has to import PyTorch first


def synchronize() -> None:
    torch.get_device_module(torch_outboard.device_name()).synchronize()


# ---- What children do. They wait for a last message, so that what they sent stays alive.


def double(inbox: mp.Queue, outbox: mp.Queue) -> None:
    x = inbox.get()
    x.mul_(2)
    synchronize()
    outbox.put((str(x.device), x.requires_grad, x.sum().item()))
    inbox.get()


def fill_first(inbox: mp.Queue, outbox: mp.Queue) -> None:
    a, b = inbox.get()
    a.fill_(7)
    synchronize()
    same = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    outbox.put((same, b.tolist()))
    inbox.get()


def give(inbox: mp.Queue, outbox: mp.Queue) -> None:
    x = torch.arange(5.0, device=torch_outboard.device_name())
    outbox.put(x)
    inbox.get()
    synchronize()
    outbox.put(x.tolist())


def send_back(inbox: mp.Queue, outbox: mp.Queue) -> None:
    outbox.put(inbox.get())
    inbox.get()


def train(inbox: mp.Queue, outbox: mp.Queue) -> None:
    model = inbox.get()
    model(torch.ones(2, 3, device=model.weight.device)).sum().backward()
    with torch.no_grad():
        model.weight.sub_(model.weight.grad)
    synchronize()
    outbox.put("trained")
    inbox.get()


@contextmanager
def child(target: Callable[[mp.Queue, mp.Queue], None]) -> Iterator[tuple[mp.Queue, mp.Queue]]:
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=target, args=(inbox, outbox), daemon=True)
    process.start()
    try:
        yield inbox, outbox
        inbox.put("done")
        process.join(TIMEOUT)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def can_share(device: torch.device) -> bool:
    return _C.adopts_host_memory(device.index) or _C.shares_with_processes()


@pytest.fixture
def shares(device: torch.device) -> None:
    if not can_share(device):
        pytest.skip("the device's memory cannot be shared with other processes here")


# ---- Sharing


@pytest.mark.usefixtures("shares")
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_child_writes_into_the_same_memory(device, strategy):
    previous = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    try:
        x = torch.arange(4.0, device=device).requires_grad_()
        view = x.detach()[1:]
        with child(double_detached if strategy == "file_system" else double) as (inbox, outbox):
            inbox.put(x.detach())
            assert outbox.get(timeout=TIMEOUT) == (str(device), False, 12.0)
            assert view.tolist() == [2.0, 4.0, 6.0]
            view.fill_(1)
            assert x.tolist() == [0.0, 1.0, 1.0, 1.0]
    finally:
        mp.set_sharing_strategy(previous)


def double_detached(inbox: mp.Queue, outbox: mp.Queue) -> None:
    mp.set_sharing_strategy("file_system")
    double(inbox, outbox)


@pytest.mark.usefixtures("shares")
def test_one_storage_arrives_as_one(device):
    x = torch.zeros(6, device=device)
    with child(fill_first) as (inbox, outbox):
        inbox.put((x[:3], x[2:]))
        assert outbox.get(timeout=TIMEOUT) == (True, [7.0, 0.0, 0.0, 0.0])
    assert x.tolist() == [7.0, 7.0, 7.0, 0.0, 0.0, 0.0]


@pytest.mark.usefixtures("shares")
def test_child_gives_a_tensor(device):
    with child(give) as (inbox, outbox):
        x = outbox.get(timeout=TIMEOUT)
        assert x.device == device
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        x.add_(1)
        synchronize()
        inbox.put("look")
        assert outbox.get(timeout=TIMEOUT) == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.usefixtures("shares")
def test_what_comes_back_is_the_same_storage(device):
    x = torch.ones(3, device=device)
    with child(send_back) as (inbox, outbox):
        inbox.put(x)
        y = outbox.get(timeout=TIMEOUT)
        assert y.untyped_storage()._cdata == x.untyped_storage()._cdata


@pytest.mark.usefixtures("shares")
def test_module_is_trained_in_a_child(device):
    model = torch.nn.Linear(3, 1).to(device)
    before = model.weight.detach().clone()
    with child(train) as (inbox, outbox):
        inbox.put(model)
        assert outbox.get(timeout=TIMEOUT) == "trained"
    torch.testing.assert_close(model.weight.detach(), before - 2)


@pytest.mark.usefixtures("shares")
def test_empty_tensor(device):
    with child(send_back) as (inbox, outbox):
        inbox.put(torch.empty(0, 3, device=device))
        y = outbox.get(timeout=TIMEOUT)
        assert y.device == device
        assert y.shape == (0, 3)


@pytest.mark.usefixtures("shares")
def test_sent_memory_is_given_back(device, device_module):
    from multiprocessing.reduction import ForkingPickler

    synchronize()
    before = device_module.memory_allocated()
    x = torch.ones(1 << 20, device=device)
    ForkingPickler.dumps(x)
    assert device_module.memory_allocated() == before + 4 * (1 << 20)
    del x
    assert device_module.memory_allocated() == before


@pytest.mark.usefixtures("shares")
def test_receiver_keeps_what_the_sender_lets_go(device):
    x = torch.arange(1000.0, device=device)
    with child(double_later) as (inbox, outbox):
        inbox.put(x)
        assert outbox.get(timeout=TIMEOUT) == "received"
        del x
        torch.accelerator.empty_cache()
        torch.full((1000,), 7.0, device=device)
        inbox.put("go on")
        assert outbox.get(timeout=TIMEOUT) == 2 * sum(range(1000))


def double_later(inbox: mp.Queue, outbox: mp.Queue) -> None:
    x = inbox.get()
    outbox.put("received")
    inbox.get()
    outbox.put(x.mul_(2).sum().item())
    inbox.get()


@pytest.mark.usefixtures("shares")
def test_tensors_die_between_sending_and_receiving(device):
    with child(send_back) as (inbox, outbox):
        inbox.put(torch.arange(5.0, device=device))
        y = outbox.get(timeout=TIMEOUT)
        assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        del y
    torch.get_device_module(device.type).ipc_collect()


def test_sent_storage_stays_where_it_moved_to(device):
    """The second time, nothing moves."""
    if _C.adopts_host_memory(device.index) or not _C.shares_with_processes():
        pytest.skip("the device does not export its memory here")
    import os

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
    with pytest.raises(ValueError, match="is no shared memory of 64 bytes"):
        _C.import_storage(device.index, 0, 64, b"")


# ---- Where it cannot work


def test_error_where_memory_cannot_be_shared(device):
    from multiprocessing.reduction import ForkingPickler

    if can_share(device):
        pytest.skip("the device's memory can be shared with other processes here")
    with pytest.raises(RuntimeError, match=r"send tensor\.cpu\(\) instead"):
        ForkingPickler.dumps(torch.ones(2, device=device))


def test_tensor_with_history_is_refused(device):
    from multiprocessing.reduction import ForkingPickler

    x = torch.ones(2, device=device, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        ForkingPickler.dumps(x)


def test_cpu_tensors_are_sent_as_before(device):
    x = torch.arange(3.0)
    with child(send_back) as (inbox, outbox):
        inbox.put(x)
        assert outbox.get(timeout=TIMEOUT).tolist() == [0.0, 1.0, 2.0]
    assert x.is_shared()


class OnDevice(torch.utils.data.Dataset):
    """Samples that lie on the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device=self.device)


def test_workers_of_a_loader_give_tensors_or_raise(device):
    """A queue pickles in a thread of its own, and the parent would wait for ever."""
    loader = torch.utils.data.DataLoader(
        OnDevice(device), batch_size=2, num_workers=1, multiprocessing_context="spawn"
    )
    if can_share(device):
        assert [batch.tolist() for batch in loader] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]
    else:
        with pytest.raises(RuntimeError, match=r"send tensor\.cpu\(\) instead"):
            list(loader)
