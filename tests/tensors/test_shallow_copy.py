"""Tensors that take over the data of another device: `.data =` and `module.to(device)`."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

CPU = torch.device("cpu")


# ---- Modules


def test_a_module_moves_in_inference_mode(device):
    with torch.inference_mode():
        layer = nn.Linear(2, 2)
        weight = layer.weight
        layer.to(device)
        assert layer.weight is weight
        assert layer(torch.ones(1, 2, device=device)).device == device


# ---- Data of single tensors


@pytest.mark.separate
@pytest.mark.parametrize("to_device", [True, False])
def test_data_takes_over_everything_but_history(device, to_device):
    source, target = (CPU, device) if to_device else (device, CPU)
    tensor = nn.Parameter(torch.ones(4, device=source))
    with torch.no_grad():
        tensor.mul_(2)
    version = tensor._version
    new = torch.arange(6.0, dtype=torch.float64, device=target).reshape(2, 3).t()
    tensor.data = new
    assert (tensor.device, tensor.dtype) == (target, torch.float64)
    assert (tensor.shape, tensor.stride()) == (new.shape, new.stride())
    assert tensor.untyped_storage().device == target
    assert tensor.data_ptr() == new.data_ptr()
    assert tensor.requires_grad
    assert tensor.is_leaf
    assert tensor._version == version
    new.add_(1)
    torch.testing.assert_close(tensor.detach().cpu(), new.cpu())
    tensor.data.zero_()
    assert new.sum().item() == 0
    assert tensor._version == version


@pytest.mark.separate
def test_views_keep_the_memory_that_they_had(device):
    base = torch.ones(4)
    view, detached = base[:2], base.detach()
    base.data = torch.zeros(3, device=device)
    view.add_(1)
    detached.mul_(2)
    assert detached.tolist() == [4, 4, 2, 2]
    assert base.tolist() == [0, 0, 0]
    view.data = torch.full((3,), 5.0, device=device)
    assert detached.tolist() == [4, 4, 2, 2]
    assert view.add_(1).tolist() == [6, 6, 6]


def test_bits_come_along_and_old_memory_goes(device, device_module):
    pairs = torch.arange(6.0, device=device).reshape(3, 2)
    tensor = torch.zeros(3, dtype=torch.complex64)
    tensor.data = torch.view_as_complex(pairs).conj()
    assert tensor.is_conj()
    assert tensor.tolist() == [-1j, 2 - 3j, 4 - 5j]
    real = torch.zeros(3)
    real.data = tensor.imag
    assert real.tolist() == [-1, -3, -5]
    device_module.synchronize()
    before = device_module.memory_allocated()
    large = torch.ones(1 << 16, device=device)
    large.data = torch.ones(3)
    assert device_module.memory_allocated() == before
    assert large.sum().item() == 3


def test_a_graph_made_before_the_move_is_not_run_on_other_values(device):
    weight = nn.Parameter(torch.ones(3, 3))
    loss = (weight @ weight).sum()
    weight.data = weight.data.to(device)
    with pytest.raises(RuntimeError, match="same device"):
        loss.backward()
    # A graph made after the move is whole.
    (weight @ weight).sum().backward()
    torch.testing.assert_close(weight.grad.cpu(), torch.full((3, 3), 6.0))
    with pytest.raises(RuntimeError, match="must be floating point"):
        weight.data = torch.ones(2, dtype=torch.int64, device=device)


# ---- What is compatible


def test_which_tensors_are_compatible(device):
    compatible = torch._has_compatible_shallow_copy_type
    here, there, meta = (torch.eye(2, device=d) for d in (CPU, device, "meta"))
    assert compatible(here, there)
    assert compatible(there, here)
    assert compatible(there, there.double())
    assert not compatible(meta, there)
    assert not compatible(there, meta)
    assert not compatible(there, there.to_sparse())
    assert not compatible(there.to_sparse(), here)
    assert compatible(there.to_sparse(), there.to_sparse())
    assert compatible(there.to_sparse_csr(), there.to_sparse_csr())
    assert not compatible(there.to_sparse_csr(), there)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_parameters_move_by_new_ones(device, layout):
    """PyTorch would leave the members of one kind behind, and asserts for the other."""
    here, there = (torch.eye(2, device=d).to_sparse(layout=layout) for d in (CPU, device))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        nn.Parameter(here).data = there
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        nn.Parameter(there).data = here
    moved = nn.ParameterList([nn.Parameter(here)]).to(device)[0].detach()
    assert moved.device == moved.values().device == device
    torch.testing.assert_close(moved.to_dense().cpu(), torch.eye(2))


class Wrapper(torch.Tensor):
    """A subclass that knows no operator but those a move needs."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        self = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device
        )
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten._to_copy.default, torch.ops.aten.detach.default):
            return Wrapper(function(args[0].inner, **(kwargs or {})))
        raise NotImplementedError(function)


def test_subclasses_are_not_asked_for_an_operator_that_they_do_not_know(device):
    here, there = Wrapper(torch.ones(2)), Wrapper(torch.ones(2, device=device))
    assert torch._has_compatible_shallow_copy_type(here, there)
    assert torch._has_compatible_shallow_copy_type(there, there)
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(Wrapper(torch.ones(2, 2)))
    layer.to(device)
    assert isinstance(layer.weight, Wrapper)
    assert layer.weight.device == device
    with FakeTensorMode():
        here, there = torch.ones(2), torch.ones(2, device=device)
        assert torch._has_compatible_shallow_copy_type(here, there)
        here.data = there
