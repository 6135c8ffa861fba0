"""Backward passes run in the calling thread where host and device share memory."""

import threading
from collections.abc import Callable

import torch

from tests.support import in_threads

MULTITHREADING = torch.autograd.is_multithreading_enabled


def in_new_thread(function: Callable[[], object]) -> object:
    """The function's result in a thread that has not used the device."""
    return in_threads(lambda _: function(), 1)[0]


def backward_threads(device: torch.device) -> set[int]:
    """The threads in which the gradient functions of a small graph run."""
    seen: set[int] = set()
    x = torch.ones(3, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.add(threading.get_ident()))
    (y.exp() + y.sin()).sum().backward()
    assert x.grad is not None
    assert seen
    return seen


def test_backward_runs_in_the_calling_thread(device: torch.device, shares_memory: bool) -> None:
    def run() -> bool:
        return backward_threads(device) == {threading.get_ident()}

    assert run() == shares_memory
    assert in_new_thread(run) == shares_memory
    # A thread that uses no device stays as it is.
    assert in_new_thread(MULTITHREADING) is True


def test_the_choice_is_made_once(device: torch.device) -> None:
    def run() -> tuple[bool, set[int]]:
        torch.empty(1, device=device)
        torch.autograd.set_multithreading_enabled(True)
        return threading.get_ident() in backward_threads(device), MULTITHREADING()

    in_the_caller, enabled = in_new_thread(run)
    assert enabled
    assert not in_the_caller


def test_autograd_threads_keep_what_the_caller_chose(device: torch.device) -> None:
    """A device's thread makes its first tensor within a backward pass, which goes on in it."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            torch.empty(1, device=device)
            seen.append((threading.get_ident(), MULTITHREADING()))
            return grad * 2

    seen: list[tuple[int, bool]] = []

    def run() -> int:
        torch.empty(1, device=device)
        with torch.autograd.set_multithreading_enabled(True):
            x = torch.ones(3, device=device, requires_grad=True)
            Double.apply(Double.apply(x)).sum().backward()
        return threading.get_ident()

    caller = in_new_thread(run)
    assert len({thread for thread, _ in seen} - {caller}) == 1
    assert [enabled for _, enabled in seen] == [True, True]


def test_backward_from_a_reentrant_backward(device: torch.device) -> None:
    x = torch.ones(4, device=device, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda t: (t * 3).exp(), x, use_reentrant=True)
    y.sum().backward()
    expected = torch.full((4,), 3 * torch.tensor(3.0).exp().item())
    torch.testing.assert_close(x.grad.cpu(), expected)
