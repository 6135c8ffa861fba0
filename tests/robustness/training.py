"""A training step that uses most of a driver, for tests that disturb it."""

from __future__ import annotations

import io
from collections.abc import Callable

import torch
from torch import nn

BATCH, CLASSES = 8, 4


class Training:
    """A small network, its optimizer and data; each step from the start gives equal numbers."""

    def __init__(self, device: torch.device | str) -> None:
        torch.manual_seed(0)
        self.device = torch.device(device)
        self._network = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(36, CLASSES),
        )  # fmt: skip
        self._start = {name: x.clone() for name, x in self._network.state_dict().items()}
        self._images, self._labels = torch.randn(BATCH, 1, 8, 8), torch.arange(BATCH) % CLASSES

    def step(self) -> torch.Tensor:
        """Trains for two steps from the start; returns the parameters on the CPU, in one vector."""
        network = self._network
        network.load_state_dict(self._start)
        network.to(self.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
        for _ in range(2):
            images = self._images.pin_memory().to(self.device, non_blocking=True)
            loss = nn.functional.cross_entropy(network(images), self._labels.to(self.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
        torch.accelerator.synchronize()
        return torch.cat([x.detach().cpu().flatten() for x in network.parameters()])

    def saved(self) -> bytes:
        """A checkpoint of the network on the device."""
        file = io.BytesIO()
        torch.save(self._network.to(self.device).state_dict(), file)
        return file.getvalue()


def survives(action: Callable[[], object]) -> str:
    """ "" if the action returned, else the message of its error, which must be of a device or file.

    Raises:
        Exception: any other kind of error.
    """
    try:
        action()
    except (RuntimeError, OSError) as error:  # AcceleratorError and OutOfMemoryError included
        return str(error) or type(error).__name__
    return ""
