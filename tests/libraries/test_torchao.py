"""torchao: weights of 8 bits, and an optimizer with states of 8 bits."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torchao")


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.Linear(128, 32))


@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
@pytest.mark.parametrize("where", ["before moving", "after moving"])
def test_quantized_weights(device, name, where):
    quantization = pytest.importorskip("torchao.quantization")
    configuration = getattr(quantization, name)
    theirs, ours = model(), model()
    quantization.quantize_(theirs, configuration())
    if where == "before moving":
        quantization.quantize_(ours, configuration())
        ours = ours.to(device)
    else:
        ours = ours.to(device)
        quantization.quantize_(ours, configuration())
    x = torch.randn(4, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(x.to(device)).cpu(), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stance", ["default", "force_eager"])
def test_optimizer_of_8_bits(device, stance):
    """Its steps are compiled; the other stance runs them operator by operator."""
    optimizers = pytest.importorskip("torchao.optim")
    losses = {}
    for place in ("cpu", device):
        trained = model().to(place)
        optimizer = optimizers.AdamW8bit(trained.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(1)
        losses[place] = []
        for _ in range(5):
            x = torch.randn(8, 64, generator=generator).to(place)
            loss = trained(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            with torch.compiler.set_stance(stance):
                optimizer.step()
            losses[place].append(loss.item())
    torch.testing.assert_close(losses[device], losses["cpu"], rtol=1e-3, atol=1e-4)
