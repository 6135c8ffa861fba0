"""What kernels find wrong: raised by the next wait, once, and nothing is broken after it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.support import run_python
from torch_outboard import ways


def wrong_gather(device: torch.device) -> torch.Tensor:
    x = torch.arange(5.0, device=device)
    return torch.gather(x, 0, torch.tensor([1, 7], device=device))


WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "synchronize": lambda x: torch.accelerator.synchronize(),
    "stream": lambda x: torch.accelerator.current_stream().synchronize(),
    "cpu": lambda x: x.cpu(),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "print": repr,
}


@pytest.mark.parametrize("wait", WAITS)
def test_the_next_wait_raises_once(device, wait):
    result = wrong_gather(device)
    with pytest.raises(
        RuntimeError, match=r"index out of range in aten::gather, which ran on .*:0"
    ):
        WAITS[wait](result)
    torch.accelerator.synchronize()
    assert (
        torch.gather(torch.ones(3, device=device), 0, torch.tensor([2], device=device)).item() == 1
    )


def test_calls_do_not_wait(device):
    result = wrong_gather(device)
    later = result + 1  # enqueued like any other work
    with pytest.raises(RuntimeError, match="index out of range in aten::gather"):
        torch.accelerator.synchronize()
    assert later.shape == (2,)


def test_several_faults_are_one_error(device):
    wrong_gather(device)
    F.embedding(torch.tensor([9], device=device), torch.ones(3, 2, device=device))
    with pytest.raises((RuntimeError, IndexError), match="index out of range"):
        torch.accelerator.synchronize()
    torch.accelerator.synchronize()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda d: F.embedding(torch.tensor([3], device=d), torch.ones(3, 2, device=d)),
         IndexError, "index out of range in aten::embedding"),
        (lambda d: F.embedding_bag(torch.tensor([[3]], device=d), torch.ones(3, 2, device=d)),
         RuntimeError, "index out of range in aten::_embedding_bag"),
        (lambda d: F.nll_loss(torch.ones(2, 3, device=d), torch.tensor([0, 3], device=d)),
         IndexError, "a target is no class in aten::nll_loss_forward"),
        (lambda d: F.multi_margin_loss(torch.ones(1, 3, device=d), torch.tensor([-1], device=d)),
         RuntimeError, "a target is no class in aten::multi_margin_loss"),
        (lambda d: torch.bernoulli(torch.tensor([0.5, 1.5], device=d)),
         RuntimeError, r"a probability is not in \[0, 1\]"),
        (lambda d: torch.bernoulli(torch.tensor([float("nan")], device=d)),
         RuntimeError, r"a probability is not in \[0, 1\]"),
    ],
    ids=["embedding", "embedding_bag", "nll_loss", "multi_margin_loss", "bernoulli", "nan"],
)  # fmt: skip
def test_values_that_cpu_refuses(device, call, error, words):
    with pytest.raises((RuntimeError, IndexError)):
        call(torch.device("cpu"))
    result = call(device)
    with pytest.raises(error, match=words):
        result.cpu()


def test_ignored_targets_and_edges_are_right(device):
    target = torch.tensor([0, 2, -100], device=device)
    scores = torch.randn(3, 3)
    loss = F.nll_loss(scores.to(device), target)
    torch.testing.assert_close(loss.cpu(), F.nll_loss(scores, target.cpu()))
    edges = torch.bernoulli(torch.tensor([0.0, 1.0], device=device))
    assert edges.tolist() == [0, 1]


def test_a_stream_that_is_not_waited_for_keeps_its_fault(device):
    stream = torch.Stream(device=device)
    with stream:
        wrong_gather(device)
    torch.accelerator.current_stream().synchronize()
    with pytest.raises(RuntimeError, match="index out of range in aten::gather"):
        stream.synchronize()


def test_threads(device):
    """Every fault is raised somewhere, and right results stay right."""
    errors, wrong = [], []

    def work(number: int) -> None:
        x = torch.arange(100.0, device=device)
        with ways.way("device"):
            for step in range(30):
                places = torch.full((10,), 200 if step == 15 else number, device=device)
                try:
                    taken = x.gather(0, places).cpu()
                    if step != 15 and not bool((taken == number).all()):
                        wrong.append(taken)
                except RuntimeError as error:
                    errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= len(errors) <= 4


@pytest.mark.parametrize("memory", ["coarse", "handles"])
def test_memory_that_the_host_cannot_touch(memory):
    printed = run_python(
        """
        import torch, torch_outboard

        x = torch.arange(5.0, device=torch_outboard.device_name())
        y = x.gather(0, torch.tensor([9], device=x.device))
        try:
            torch.accelerator.synchronize()
        except RuntimeError as error:
            print(str(error).partition(",")[0])
        torch.accelerator.synchronize()
        print(x.gather(0, torch.tensor([3], device=x.device)).item())
        """,
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_WAY="device",
    )
    assert printed.splitlines() == ["index out of range in aten::gather", "3.0"]


def test_blocking_launches_raise_at_the_call():
    printed = run_python(
        """
        import torch, torch_outboard

        x = torch.arange(5.0, device=torch_outboard.device_name())
        try:
            x.gather(0, torch.tensor([9], device=x.device))
        except RuntimeError as error:
            print(str(error).partition("\\n")[0])
        """,
        OUTBOARD_BLOCKING="1",
        OUTBOARD_WAY="device",
    )
    assert printed.strip() == "index out of range in aten::gather"
