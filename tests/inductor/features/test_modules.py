"""Uses of compiled modules besides calls: saving, copying, moving, training."""

import copy
import gc
import io

import pytest
import torch
from torch import nn

from tests.inductor.support import moved
from tests.support import in_threads

pytestmark = pytest.mark.by_turns(3)

SHAPE = (5, 8)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def saved_and_loaded(value: object) -> object:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=not isinstance(value, nn.Module))


def close(actual: object, expected: object) -> None:
    torch.testing.assert_close(moved(actual, "cpu"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.by_turns(6)
def test_modules_are_saved_copied_and_moved(device: torch.device):
    x = torch.randn(SHAPE)
    expected = network()(x).detach()
    model = torch.compile(network().to(device))
    close(model(x.to(device)).detach(), expected)
    other = torch.compile(nn.Sequential(*(layer for layer in network().to(device))))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(saved_and_loaded(model.state_dict()))
    close(other(x.to(device)).detach(), expected)
    close(copy.deepcopy(model)(x.to(device)).detach(), expected)
    close(saved_and_loaded(model._orig_mod)(x.to(device)).detach(), expected)
    model.to("cpu").to(device)
    close(model(x.to(device)).detach(), expected)
    in_place = network().to(device)
    in_place.compile()
    close(in_place(x.to(device)).detach(), expected)
    close(saved_and_loaded(in_place)(x.to(device)).detach(), expected)


def test_threads_share_a_compiled_function(device: torch.device):
    compiled = torch.compile(lambda x: (x.sin() + x.cos()).sum(-1))
    inputs = [torch.randn(64, 60 + width) for width in range(3)]
    expected = [(x.sin() + x.cos()).sum(-1) for x in inputs]

    def work(number: int) -> None:
        for turn in range(10):
            index = (number + turn) % len(inputs)
            close(compiled(inputs[index].to(device)), expected[index])

    in_threads(work, 6)


def test_memory_of_training_steps_does_not_grow(device: torch.device):
    model = network().to(device)
    compiled, optimizer = torch.compile(model), torch.optim.Adam(model.parameters())

    def allocated(steps: int) -> int:
        for _ in range(steps):
            compiled(torch.randn(SHAPE, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.accelerator.synchronize()
        gc.collect()
        return torch.get_device_module(device).memory_allocated()

    allocated(5)
    assert allocated(5) >= allocated(30) > 0
