"""Memory that only a call of a host kernel keeps alive."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

SIZE = 300


@pytest.fixture
def kept(device: torch.device) -> Iterator[list[torch.Tensor]]:
    """What the CPU kernel of `outboard_lifetimes::keep` kept of its arguments."""
    found: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        found.append(x)
        return x.new_zeros(())

    library = torch.library.Library("outboard_lifetimes", "DEF")
    library.define("keep(Tensor x) -> Tensor")
    library.impl("keep", keep, "CPU")
    yield found
    found.clear()
    library._destroy()


def compiled(body: str) -> torch.jit.CompilationUnit:
    """TorchScript, whose interpreter moves the last reference to a tensor into the call."""
    return torch.jit.CompilationUnit(f"def call(x: Tensor):\n    return {body}\n")


def test_what_a_kernel_keeps_has_an_owner(
    device: torch.device, kept: list[torch.Tensor], shares_memory: bool
) -> None:
    x = torch.arange(float(SIZE)).to(device)
    call = compiled("torch.ops.outboard_lifetimes.keep(x + 1)").call
    for _ in range(3):
        call(x)
    gc.collect()
    # What was freed too early is handed out again here.
    others = [torch.full((SIZE,), -1.0, device=device) for _ in range(8)]
    torch.accelerator.synchronize()
    for tensor in kept:
        torch.testing.assert_close(tensor, torch.arange(float(SIZE)) + 1)
    assert all(bool((other == -1).all()) for other in others)


@pytest.mark.parametrize(
    "body",
    [
        "torch.roll(x + 1, 1)",
        "torch.sort(x + 1)",
        "torch.ops.aten.sgn(x + 1)",
        "torch.cdist(x.reshape(-1, 3) + 1, x.reshape(-1, 3) - 1)",
        "torch.cat([x + 1, x + 2]).roll(1)",
        "torch.ops.aten.index(x + 1, [(x * 0).long()])",
    ],
)
def test_calls_with_the_last_reference(device: torch.device, body: str) -> None:
    x = torch.arange(float(SIZE))
    call = compiled(body).call
    for _ in range(4):
        torch.testing.assert_close(_to_cpu(call(x.to(device))), call(x))


def test_a_call_with_the_last_reference_that_raises(device: torch.device) -> None:
    x = torch.arange(float(SIZE))
    call = compiled("torch.ops.aten.roll(x + 1, [1], [7])").call
    for _ in range(4):
        with pytest.raises(Exception, match="Dimension out of range"):
            call(x.to(device))
    torch.testing.assert_close(torch.roll(x.to(device), 1).cpu(), torch.roll(x, 1))


def _to_cpu(value: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor | tuple:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return tuple(one.cpu() for one in value)
