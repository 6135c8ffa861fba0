"""timm: a convolutional network and a transformer; and a kernel for `torchvision::nms`."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.libraries.models import STEPS

timm = pytest.importorskip("timm", exc_type=ImportError)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet10t", {"num_classes": 5}),
        ("vit_tiny_patch16_224", {"img_size": 32, "num_classes": 5, "depth": 2}),
    ],
)
def test_training(same_as_on_cpu, name, options):
    def program(run):
        model = run.on_device(timm.create_model(name, **options))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        for _ in range(STEPS):
            loss = functional.cross_entropy(model(run.draw(2, 3, 32, 32)), run.integers(0, 5, (2,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss": loss}

    same_as_on_cpu(program, bitwise=False)


def test_operators_of_torchvision(device):
    """They have kernels for CPU, so the host runs them."""
    ops = pytest.importorskip("torchvision.ops")
    corners = torch.rand(50, 2) * 10
    boxes, scores = torch.cat([corners, corners + 3], 1), torch.rand(50)
    kept = ops.nms(boxes.to(device), scores.to(device), 0.3)
    assert torch.equal(kept.cpu(), ops.nms(boxes, scores, 0.3))
