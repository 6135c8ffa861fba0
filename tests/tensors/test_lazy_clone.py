"""Copy-on-write storages: clones that share memory until one of them is written to."""

import pytest
import torch

import torch_outboard

pytestmark = [pytest.mark.separate, pytest.mark.faults]


def shared(*tensors: torch.Tensor) -> list[bool]:
    return [torch._C._is_cow_tensor(tensor) for tensor in tensors]


@pytest.fixture
def pair(device) -> tuple[torch.Tensor, torch.Tensor]:
    original = torch.arange(6.0, device=device)
    return original, torch._lazy_clone(original)


READS = {
    "item": lambda x: x.sum().item(),
    "add": lambda x: x + 1,
    "twice": lambda x: torch.cat([x, x]),
    "product": lambda x: x @ x,
    "strided": lambda x: x[::2].clone(),
    "convert": lambda x: x.to(torch.float64),
    "cpu": lambda x: x.cpu(),
    "index": lambda x: x[torch.tensor([1, 4], device=x.device)],
    "decomposition": lambda x: torch.nn.functional.layer_norm(x, (6,)),
    "print": lambda x: repr(x),
    "copied from": lambda x: torch.zeros_like(x).copy_(x),
    "dropout": lambda x: torch.native_dropout(x, 0.5, True)[0].shape,
}


@pytest.mark.parametrize("name", READS)
def test_reading_keeps_memory_shared(pair, name):
    original, clone = pair
    got = READS[name](clone)
    if name != "print":
        expected = READS[name](torch.arange(6.0))
        torch.testing.assert_close(got.cpu() if isinstance(got, torch.Tensor) else got, expected)
    assert shared(original, clone) == [True, True]


WRITES = {
    "add": lambda x: x.add_(1),
    "view": lambda x: x[2:].mul_(3),
    "zero": lambda x: x.zero_(),
    "copy": lambda x: x.copy_(torch.ones(6)),
    "index": lambda x: x.index_fill_(0, torch.tensor([1], device=x.device), 9),
    "itself": lambda x: x.add_(x),
    "out": lambda x: torch.sin(torch.ones(6, device=x.device), out=x),
    "normal": lambda x: x.normal_(),
    "sort": lambda x: torch.sort(
        x, descending=True, out=(x, torch.empty(0, dtype=torch.int64, device=x.device))
    ),
    "optimizer": lambda x: torch._fused_sgd_(
        [x], [torch.ones_like(x)], [], weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0,
        nesterov=False, maximize=False, is_first_step=False,
    ),
    "list": lambda x: torch._foreach_mul_([x], 2.0),
    "resize": lambda x: x.resize_(100),
    "address": lambda x: x.data_ptr(),
}  # fmt: skip


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", WRITES)
def test_writing_leaves_the_other_alone(pair, name, which):
    written, other = pair[which], pair[1 - which]
    WRITES[name](written)
    assert other.tolist() == [0, 1, 2, 3, 4, 5]
    assert shared(written) == [False]
    if name not in ("normal", "resize"):
        reference = torch.arange(6.0)
        WRITES[name](reference)
        torch.testing.assert_close(written.cpu(), reference)
    other.add_(1)
    assert other.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("first", [0, 1])
def test_the_last_owner_keeps_the_memory(device, device_module, first):
    device_module.synchronize()
    before = device_module.memory_allocated()
    tensors = [torch.ones(1 << 15, device=device)]
    tensors.append(torch._lazy_clone(tensors[0]))
    address = torch._C._data_address(tensors[0])
    assert torch._C._data_address(tensors[1]) == address
    del tensors[first]
    tensors[0].add_(1)
    assert torch._C._data_address(tensors[0]) == address
    assert tensors[0].sum().item() == 2 << 15
    assert device_module.memory_allocated() - before == (1 << 15) * 4
    tensors.clear()
    device_module.synchronize()
    assert device_module.memory_allocated() == before


def test_many_clones_of_one_storage(device):
    base = torch.arange(100.0, device=device)
    clones = [torch._lazy_clone(base) for _ in range(20)]
    clones += [torch._lazy_clone(clone[10:20]) for clone in clones]
    assert (clones[-1].stride(), clones[-1].storage_offset()) == ((1,), 10)
    for number, clone in enumerate(clones):
        clone.fill_(number)
    assert base.tolist() == list(range(100))
    assert all(clone.eq(number).all().item() for number, clone in enumerate(clones))


def test_memory_comes_from_the_device_of_the_tensor(device, device_module):
    if device_module.device_count() < 2:
        pytest.skip("the driver has one device")
    second = torch.device(device.type, 1)
    tensor = torch.arange(4.0, device=second)
    clone = torch._lazy_clone(tensor)
    with device_module.device(device):
        clone.add_(1)
    assert clone.device == second
    assert clone.untyped_storage().device == second
    assert (clone - tensor).tolist() == [1, 1, 1, 1]


def test_gradients_and_bits(device):
    tensor = torch.ones(3, device=device, requires_grad=True)
    torch._lazy_clone(tensor).mul(2).sum().backward()
    assert tensor.grad.tolist() == [2, 2, 2]
    for turned in (lambda x: x.conj(), lambda x: x.conj().imag):
        here, there = (turned(torch.tensor([1 + 2j, 3j], device=d)) for d in ("cpu", device))
        torch.testing.assert_close(torch._lazy_clone(there).cpu(), torch._lazy_clone(here))


def test_memory_that_the_host_shares(pair, shares_memory):
    """Memory with other owners is copied at once; an alias for the host is written alone."""
    if not shares_memory:
        pytest.skip("the device shares no memory with the host")
    host = torch.arange(4.0)
    adopted = torch._lazy_clone(torch_outboard.from_cpu(host))
    host.zero_()
    assert adopted.tolist() == [0, 1, 2, 3]
    original, clone = pair
    torch_outboard.as_cpu(clone).add_(1)
    assert original.tolist() == [0, 1, 2, 3, 4, 5]
    assert clone.tolist() == [1, 2, 3, 4, 5, 6]
