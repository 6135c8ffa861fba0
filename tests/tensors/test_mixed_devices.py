"""Indices, masks and values on another device than the tensor: what CUDA refuses is refused."""

import pytest
import torch

INDEX = torch.tensor([0, 2])
MASK = torch.tensor([True, False, True])


def put(tensor, index, value):
    return tensor.clone().index_put_((index,), value)


WRONG_INDICES = {
    "get": lambda here, there: here[INDEX.to(there.device)],
    "mask": lambda here, there: here[MASK.to(there.device)],
    "one of two": lambda here, there: here.expand(3, 3)[INDEX, INDEX.to(there.device)],
    "set": lambda here, there: here.__setitem__(INDEX.to(there.device), 5.0),
    "put": lambda here, there: put(here, INDEX.to(there.device), torch.ones(2)),
    "unsafe": lambda here, there: torch.ops.aten._unsafe_index(here, [INDEX.to(there.device)]),
}


@pytest.mark.parametrize("name", WRONG_INDICES)
def test_indices_of_a_device_do_not_go_into_tensors_elsewhere(device, name):
    words = "indices should be either on cpu or on the same device"
    here, there = torch.ones(3), torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match=words):
        WRONG_INDICES[name](here, there)
    assert here.tolist() == [1, 1, 1]
    if torch.accelerator.device_count() > 1:
        with pytest.raises(RuntimeError, match=words):
            WRONG_INDICES[name](there, torch.ones(3, device=f"{device.type}:1"))


@pytest.mark.parametrize("where", ["here", "there"])
def test_values_lie_with_the_tensor(device, where):
    here, there = torch.ones(3), torch.ones(3, device=device)
    tensor, value = (here, there) if where == "here" else (there, here)
    with pytest.raises(RuntimeError, match="same device"):
        put(tensor, INDEX, value[:2])
    assert put(tensor, INDEX, torch.tensor(7.0, device=value.device)).tolist() == [7, 1, 7]
    with pytest.raises(RuntimeError, match="same device"):
        tensor.masked_fill(MASK.to(value.device), 2.0)
    with pytest.raises(RuntimeError, match="same device"):
        tensor.masked_scatter(MASK.to(tensor.device), value)
    with pytest.raises(RuntimeError, match="same device"):
        torch.where(MASK.to(value.device), tensor, tensor)


def test_indices_on_the_cpu_go_everywhere(device):
    tensor = torch.arange(9.0, device=device).reshape(3, 3)
    assert tensor[INDEX].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert tensor[MASK].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert tensor[INDEX, INDEX.to(device)].tolist() == [0, 8]
    tensor[INDEX] = 1.0
    tensor[MASK, 0] = torch.tensor(2.0)
    assert tensor.tolist() == [[2, 1, 1], [3, 4, 5], [2, 1, 1]]
