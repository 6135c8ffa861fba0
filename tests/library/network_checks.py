"""Networks whose products and convolutions a library does (run by test_library_drivers.py)."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.library.library import calls
from torch_outboard import fallback


class Network(nn.Module):
    """Convolutions that cut an image into words, and a transformer that reads them."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2),
            nn.ConvTranspose2d(8, width, 2, stride=2),
            nn.Conv2d(width, width, 4, stride=4),
        )
        layer = nn.TransformerEncoderLayer(
            width, nhead=2, dim_feedforward=32, dropout=0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        words = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.encoder(words).mean(1))


def losses(network: nn.Module, device: torch.device, steps: int) -> torch.Tensor:
    network = copy.deepcopy(network).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(6, 3, 12, 12, generator=generator).to(device)
    classes = torch.randint(5, (6,), generator=generator).to(device)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(images), classes)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found).cpu()


def test_trains_to_the_losses_of_cpu(device: torch.device) -> None:
    torch.manual_seed(0)
    network = Network()
    expected = losses(network, torch.device("cpu"), 6)
    with fallback.policy(copied="allow"), fallback.report() as report, calls() as made:
        result = losses(network, device, 6)
    assert_close(result, expected, rtol=1e-3, atol=1e-3)
    assert expected[-1] < 0.8 * expected[0]
    for each in ("forward", "backward_input", "backward_weight"):
        assert made[each] >= 6 * 3
    assert made["products"] >= 6 * 27
    elsewhere = {row.op for row in report.rows if row.way != "device"}
    assert not elsewhere & {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
    assert not elsewhere & {"aten::convolution", "aten::convolution_backward"}


def test_graph(device: torch.device, shares_memory: bool) -> None:
    if not shares_memory:
        pytest.skip("there the library waits, and cannot be captured")
    x, result = torch.ones(4, 4, device=device), torch.zeros(4, 4, device=device)
    with torch.Stream(device):
        torch.accelerator.synchronize()
        graph = torch.accelerator.Graph()
        try:
            with graph:
                torch.mm(x, x, out=result)
        except NotImplementedError:
            pytest.skip("the driver has no graphs")
        assert_close(result.cpu(), torch.zeros(4, 4))
        for value in (2.0, 3.0):
            x.fill_(value)
            graph.replay()
            assert_close(result.cpu(), torch.full((4, 4), 4 * value**2))
