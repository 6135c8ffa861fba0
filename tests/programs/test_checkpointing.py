"""Activation checkpointing: recomputing has to repeat what was computed, random numbers included.

The device's numbers are not CPU's, so what is compared is the device with itself: a network gives
the same bits whether its activations are kept or recomputed.
"""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.programs.comparison import SEED, as_on_cpu
from tests.programs.training import CLASSES, INPUTS, batch, perceptron

pytestmark = pytest.mark.separate

STEPS = 20
WIDTH = 64


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.4), nn.Tanh())
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + functional.dropout(self.inner(x), 0.2)
        return x + self.attention(x, x, x, need_weights=False)[0]


class Network(nn.Module):
    """Blocks with dropout, whose activations are kept, or recomputed by one of the variants."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(3))
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, variant: str) -> torch.Tensor:
        x = self.first(x)
        if variant == "nested":
            x = checkpoint.checkpoint(self.nested, x, use_reentrant=False)
        else:
            for block in self.blocks:
                if variant == "kept":
                    x = block(x)
                else:
                    x = checkpoint.checkpoint(block, x, use_reentrant=variant == "reentrant")
        return self.last(x).mean(1)

    def nested(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint.checkpoint(block, x, use_reentrant=False)
        return x


def train(
    device: torch.device, start: nn.Module, variant: str, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """Losses, gradients and parameters of some steps, and the state of the generator at the end."""
    model = copy.deepcopy(start).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    shown = []
    torch.manual_seed(SEED)
    for _ in range(STEPS):
        inputs = torch.randn(4, 5, INPUTS).to(device)
        classes = torch.randint(0, CLASSES, (4,)).to(device)
        optimizer.zero_grad()
        precision = torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext()
        with precision:
            loss = functional.cross_entropy(model(inputs, variant).float(), classes)
        loss.backward()
        shown += [loss.detach().cpu(), *(p.grad.cpu().clone() for p in model.parameters())]
        optimizer.step()
    shown += [parameter.detach().cpu() for parameter in model.parameters()]
    return [*shown, torch.get_device_module(device).get_rng_state(device)]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("variant", ["reentrant", "not reentrant", "nested"])
def test_recomputed_as_kept(device, variant, dtype):
    torch.manual_seed(0)
    start = Network()
    kept = train(device, start, "kept", dtype)
    recomputed = train(device, start, variant, dtype)
    for number, (theirs, ours) in enumerate(zip(kept, recomputed, strict=True)):
        assert torch.equal(theirs, ours), f"result {number} of {len(kept)}"


@pytest.mark.parametrize("variant", ["reentrant", "not reentrant"])
def test_masks_differ_without_the_state(device, variant):
    """Without the state of the generators other masks are drawn: the test above can fail."""
    torch.manual_seed(0)
    model = nn.Dropout(0.5).to(device)
    x = torch.ones(4000, device=device, requires_grad=True)
    reentrant = variant == "reentrant"
    y = checkpoint.checkpoint(model, x, use_reentrant=reentrant, preserve_rng_state=False)
    torch.get_device_module(device).manual_seed(5)
    y.sum().backward()
    assert not torch.equal(x.grad, y.detach())


@as_on_cpu
def test_selective_checkpointing(run):
    """A policy that keeps products of matrices and recomputes the rest."""
    kept = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}

    def policy(context, operator, *arguments, **keywords):
        choice = checkpoint.CheckpointPolicy
        return choice.MUST_SAVE if operator in kept else choice.PREFER_RECOMPUTE

    def contexts():
        return checkpoint.create_selective_checkpoint_contexts(policy)

    model = run.on_device(perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        inputs, classes = batch(run)
        optimizer.zero_grad()
        scores = checkpoint.checkpoint(model, inputs, use_reentrant=False, context_fn=contexts)
        loss = functional.cross_entropy(scores, classes)
        loss.backward()
        optimizer.step()
        yield {"loss": loss, "model": model}


def test_numbers_on_other_devices_and_cpu(device):
    """A block that draws on CPU and on the device, and leaves both generators where they were."""

    def block(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(x.shape).to(x.device) * torch.rand_like(x)

    results = []
    for recompute in (False, True):
        torch.manual_seed(3)
        x = torch.ones(50, device=device, requires_grad=True)
        y = checkpoint.checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        torch.rand(3), torch.rand(3, device=device)
        y.sum().backward()
        results.append([x.grad, y.detach(), torch.rand(3), torch.rand(3, device=device)])
    for kept, recomputed in zip(*results, strict=True):
        assert torch.equal(kept, recomputed)
