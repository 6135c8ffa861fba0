"""Training steps of real networks run on the device alone: no operator runs on the host."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks.training_steps import Gpt, ResNet18
from tests.programs.networks import UNet
from torch_outboard import fallback

# Reading one number from the device is no work.
READS = {"aten::_local_scalar_dense"}


class Encoder(nn.Module):
    """Words with padding, restored by a transformer and a recurrent layer."""

    def __init__(self, words: int = 50, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.recurrent = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.encoder(self.words(words), src_key_padding_mask=words == 0)
        return self.head(self.recurrent(x)[0])


def sentences() -> list[torch.Tensor]:
    words = torch.randint(1, 50, (4, 16))
    words[1, 8:] = 0
    return [words, words.roll(-1, dims=1)]


# A network and what draws its inputs, with the target at the end.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], list[torch.Tensor]]]] = {
    "GPT": (lambda: Gpt(tokens=50, length=16, width=32), sentences),
    "encoder": (Encoder, sentences),
    "ResNet-18": (ResNet18, lambda: [torch.randn(2, 3, 64, 64), torch.randint(0, 1000, (2,))]),
    "U-Net": (UNet, lambda: [torch.randn(2, 3, 16, 16), torch.rand(2), torch.randn(2, 3, 16, 16)]),
}


def train(model: nn.Module, batch: list[torch.Tensor], steps: int) -> torch.Tensor:
    """The losses of some steps."""
    # With a small eps, the step of a gradient near zero is its sign, which rounding decides.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    losses = []
    *inputs, target = batch
    for _ in range(steps):
        optimizer.zero_grad()
        result = model(*inputs)
        if target.is_floating_point():
            loss = functional.mse_loss(result, target)
        else:
            loss = functional.cross_entropy(result.flatten(0, -2), target.flatten(), ignore_index=0)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("name", MODELS)
def test_training_step_is_native(device, name):
    torch.manual_seed(0)
    make, draw = MODELS[name]
    model, batch = make(), draw()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # CPU draws other numbers
    on_device = copy.deepcopy(model).to(device)
    with fallback.report() as report:
        losses = train(on_device, [tensor.to(device) for tensor in batch], 2)
    # By float64: of ResNet-18, float32 on CPU differs from that by up to 2e-5 of itself on some.
    doubles = [x.double() if x.is_floating_point() else x for x in batch]
    expected = train(model.double(), doubles, 2)
    torch.testing.assert_close(losses.cpu().double(), expected, rtol=1e-5, atol=2e-6)
    on_host = {row.op for row in report.rows if row.placement != "device"} - READS
    assert not on_host
