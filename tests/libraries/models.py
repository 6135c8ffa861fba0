"""Models of transformers that are small and have random weights, in training."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.inductor.models.architectures import ARCHITECTURES
from tests.inductor.models.programs import on
from tests.programs.comparison import Run

STEPS = 20


def made(name: str) -> nn.Module:
    return ARCHITECTURES[name].made()


def trained(run: Run, model: nn.Module, batch: Callable[[], dict[str, Any]]):
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-3, foreach=False)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**on(run, batch())).loss
        loss.backward()
        norm = nn.utils.clip_grad_norm_(learned, 1.0, foreach=False)
        optimizer.step()
        yield {"loss": loss, "norm": norm, "model": model}
