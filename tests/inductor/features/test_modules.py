"""What is done with compiled modules besides calling them: saving, copying, moving, training."""

from __future__ import annotations

import copy
import gc
import io
import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.inductor.support import moved

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
    model.to("cpu")
    close(model(x).detach(), expected)
    model.to(device)
    close(model(x.to(device)).detach(), expected)


def test_a_module_compiled_in_place_is_saved(device: torch.device):
    model, x = network().to(device), torch.randn(SHAPE)
    model.compile()
    close(model(x.to(device)).detach(), network()(x).detach())
    close(saved_and_loaded(model)(x.to(device)).detach(), network()(x).detach())


def test_threads_share_a_compiled_function(device: torch.device):
    compiled = torch.compile(lambda x: (x.sin() + x.cos()).sum(-1))
    inputs = [torch.randn(64, 60 + width) for width in range(3)]
    expected = [(x.sin() + x.cos()).sum(-1) for x in inputs]
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                place = (number + turn) % len(inputs)
                close(compiled(inputs[place].to(device)), expected[place])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


@pytest.mark.by_turns(6)
def test_a_whole_step_is_compiled(device: torch.device):
    """Loss, gradients, their norm, the optimizer and its learning rate in one function."""

    def losses(device: object, compile: Callable[..., Callable[..., torch.Tensor]]) -> list[float]:
        model = network().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=9)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            return loss

        run = compile(step)
        torch.manual_seed(1)
        batches = [(torch.randn(6, 8), torch.randint(0, 4, (6,))) for _ in range(5)]
        return [run(x.to(device), y.to(device)).item() for x, y in batches]

    expected = losses("cpu", lambda step: step)
    assert losses(device, torch.compile) == pytest.approx(expected, rel=1e-4)


def test_modes_in_turn(device: torch.device):
    """Each has code of its own, and none is taken for another's."""
    x, model = torch.randn(SHAPE), network()
    compiled = torch.compile(network().to(device))
    given = x.to(device)
    for _ in range(2):
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                result = compiled(given)
                assert result.requires_grad == model(x).requires_grad
                close(result.detach().clone(), model(x).detach())
        with torch.autocast(device.type, torch.bfloat16):
            result = compiled(given)
        assert result.dtype == torch.bfloat16
        torch.testing.assert_close(result.float().cpu(), model(x), rtol=0.05, atol=0.05)


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


def test_processes_that_load_data_are_forked(device: torch.device):
    compiled = torch.compile(lambda x: x.sin() + 1)
    x = torch.arange(12.0).view(6, 2)
    close(compiled(x.to(device)), x.sin() + 1)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x), 2, num_workers=2, multiprocessing_context="fork"
    )
    results = [compiled(batch.to(device)) for (batch,) in loader]
    close(torch.cat(results), x.sin() + 1)


def test_wrong_shapes_raise_what_they_raise_for_cpu(device: torch.device):
    functions = (
        lambda x: x @ x,
        lambda x: x.view(7),
        lambda x: x[5],
        lambda x: torch.cat([x, x[:, :1]]),
        lambda x: F.linear(x, x[:, :2]),
    )

    def raised(function: Callable[..., object], x: torch.Tensor) -> str:
        with pytest.raises(Exception, match=r".") as problem:
            function(x)
        return problem.type.__name__

    x = torch.randn(2, 3)
    for function in functions:
        raised(function, x)
        torch.compiler.reset()
        compiled = torch.compile(function)
        assert raised(compiled, x.to(device)) == raised(compiled, x)
