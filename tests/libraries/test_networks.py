"""Networks and metrics that need no integration: timm, diffusers, peft, torch_geometric,
torchmetrics, torchao."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.inductor.models.architectures import masked, words
from tests.libraries.models import STEPS, made, trained
from tests.programs.comparison import Run


def learn(parameters: Iterable[torch.Tensor], loss_of: Callable[[], torch.Tensor]) -> Iterator[Any]:
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, foreach=False)
    for _ in range(STEPS):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield {"loss": loss}


def test_timm(same_as_on_cpu):
    timm = pytest.importorskip("timm", exc_type=ImportError)

    def program(run: Run):
        model = run.on_device(timm.create_model("resnet10t", num_classes=5))
        yield from learn(
            model.parameters(),
            lambda: functional.cross_entropy(
                model(run.draw(2, 3, 32, 32)), run.integers(0, 5, (2,))
            ),
        )

    same_as_on_cpu(program, bitwise=False)


def test_diffusers(same_as_on_cpu):
    diffusers = pytest.importorskip("diffusers")

    def program(run: Run):
        model = diffusers.UNet2DModel(
            sample_size=8,
            block_out_channels=(8, 16),
            layers_per_block=1,
            norm_num_groups=4,
            attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )
        model = run.on_device(model)
        schedule = diffusers.DDPMScheduler(num_train_timesteps=50)

        def loss() -> torch.Tensor:
            clean, noise = run.draw(2, 3, 8, 8), run.draw(2, 3, 8, 8)
            times = run.integers(0, 50, (2,))
            noisy = schedule.add_noise(clean, noise, times)
            return functional.mse_loss(model(noisy, times).sample, noise)

        yield from learn(model.parameters(), loss)

    same_as_on_cpu(program, bitwise=False)  # PyTorch's group norm keeps channels last on CPU only


@pytest.mark.parametrize(("kind", "moved"), [("DoRA", False), ("LoRA", True)])
def test_peft(same_as_on_cpu, kind, moved):
    """Adapters on a model that moves to the device with them, or is there already."""
    peft = pytest.importorskip("peft")

    def program(run: Run):
        base = run.precise(made("Llama"))
        if moved:
            base = base.to(run.device)
        settings = peft.LoraConfig(
            r=4, target_modules=["q_proj", "v_proj", "down_proj"], use_dora=kind == "DoRA"
        )
        model = run.on_device(peft.get_peft_model(base, settings))
        # The adapters' start is drawn where the model was.
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_A" in name:
                    parameter.copy_(torch.randn(parameter.shape) * 0.1)
        yield from trained(run, model, masked)
        merged = model.merge_and_unload().eval()
        yield {"scores": merged(words(2, 6).to(run.device)).logits}

    same_as_on_cpu(program)


@pytest.mark.parametrize("name", ["GATConv", "SAGEConv"])
def test_torch_geometric(same_as_on_cpu, name):
    """Layers over three graphs in one batch, with a class each."""
    geometric = pytest.importorskip("torch_geometric")
    nn = pytest.importorskip("torch_geometric.nn")
    options = {"GATConv": {"heads": 2}, "SAGEConv": {"aggr": "max"}}[name]

    def program(run: Run):
        layer = run.on_device(getattr(nn, name)(8, 8, **options))
        head = run.on_device(torch.nn.Linear({"GATConv": 16, "SAGEConv": 8}[name], 3))

        def loss() -> torch.Tensor:
            graphs = []
            for label, nodes in enumerate((5, 7, 4)):
                edges = torch.randint(0, nodes, (2, 3 * nodes))
                x = run.precise(torch.randn(nodes, 8))
                graphs.append(geometric.data.Data(x=x, edge_index=edges, y=torch.tensor([label])))
            batch = geometric.data.Batch.from_data_list(graphs).to(run.device)
            hidden = functional.silu(layer(batch.x, batch.edge_index))
            return functional.cross_entropy(head(nn.global_mean_pool(hidden, batch.batch)), batch.y)

        yield from learn([*layer.parameters(), *head.parameters()], loss)

    # Scattered values are added in the order of threads.
    same_as_on_cpu(program, bitwise=False)


METRICS = {
    "Accuracy": {"task": "multiclass", "num_classes": 5},
    "AveragePrecision": {"task": "multiclass", "num_classes": 5, "thresholds": 20},
    "PearsonCorrCoef": {},
}


@pytest.mark.parametrize("name", METRICS)
def test_torchmetrics(same_as_on_cpu, name):
    torchmetrics = pytest.importorskip("torchmetrics")

    def program(run: Run):
        metric = run.on_device(getattr(torchmetrics, name)(**METRICS[name]))
        for _ in range(2):
            for _ in range(3):
                if METRICS[name]:
                    metric.update(run.draw(32, 5).softmax(1), run.integers(0, 5, (32,)))
                else:
                    x = run.draw(32)
                    metric.update(x, x + 0.1 * run.draw(32))
            yield {"value": metric.compute().to(run.dtype)}
            metric.reset()

    same_as_on_cpu(program, bitwise=False)


def small_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.Linear(128, 32))


@pytest.mark.parametrize("moved", [False, True])
def test_weights_of_8_bits(device, moved):
    quantization = pytest.importorskip("torchao.quantization")
    for name in ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"):
        configuration = getattr(quantization, name)
        theirs, ours = small_model(), small_model()
        quantization.quantize_(theirs, configuration())
        if moved:
            ours = ours.to(device)
        quantization.quantize_(ours, configuration())
        ours = ours.to(device)
        x = torch.randn(4, 64)
        with torch.no_grad():
            torch.testing.assert_close(ours(x.to(device)).cpu(), theirs(x), rtol=1e-4, atol=1e-4)


def test_optimizer_of_8_bits(device):
    """Its steps are compiled."""
    optimizers = pytest.importorskip("torchao.optim")
    losses = {}
    for location in ("cpu", device):
        model = small_model().to(location)
        optimizer = optimizers.AdamW8bit(model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(1)
        losses[location] = []
        for _ in range(5):
            x = torch.randn(8, 64, generator=generator).to(location)
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[location].append(loss.item())
    torch.testing.assert_close(losses[device], losses["cpu"], rtol=1e-3, atol=1e-4)
