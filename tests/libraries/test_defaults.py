"""Libraries that choose a device by themselves: the same losses as on CPU after `enable()`.

Where one cannot be imported here, its test is skipped: ultralytics needs a torchvision
that loads beside this PyTorch.
"""

import os
import subprocess
import sys

import pytest

from tests.libraries.enabled import same_losses, shown

PROGRAMS = {
    "sentence_transformers": """
import sentence_transformers
from tests.inductor.models.architectures import WORDS
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer, models, pre_tokenizers
import transformers

words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(39)} | {"?": 39}, "?"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="?").save_pretrained("bert")
transformers.BertModel(transformers.BertConfig(
    vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=16,
)).save_pretrained("bert")
encoder = modules.Transformer("bert")
model = sentence_transformers.SentenceTransformer(
    modules=[encoder, modules.Pooling(16)], **({"device": "cpu"} if where == "cpu" else {})
)
found = model.encode(["w1 w2 w3", "w4"], convert_to_tensor=True, show_progress_bar=False)
shown = found.device.type, found.tolist()
""",
    "stable_baselines3": """
import gymnasium
from stable_baselines3 import PPO

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.observed(), {}
    def observed(self):
        return torch.tensor([self.at / 10, 1.0]).numpy()
    def step(self, action):
        self.at += 1
        return self.observed(), float(action), self.at == 10, False, {}

model = PPO(
    "MlpPolicy", Line(), seed=1, n_steps=32, batch_size=16, n_epochs=2,
    **({"device": "cpu"} if where == "cpu" else {}),
)
torch.manual_seed(3)
model.policy.load_state_dict({
    name: torch.randn(value.shape) * 0.1 for name, value in model.policy.state_dict().items()
})
observed = torch.randn(6, 2).numpy()
values, logs, entropy = model.policy.evaluate_actions(
    *(torch.as_tensor(x).to(model.device) for x in (observed, [0, 1, 1, 0, 0, 1]))
)
loss = (values.square().mean() - logs.mean() - entropy.mean())
loss.backward()
norm = sum(p.grad.abs().sum() for p in model.policy.parameters() if p.grad is not None)
model.learn(64)
shown = model.device.type, [loss.item(), norm.item()]
""",
    "keras": """
os.environ["KERAS_BACKEND"] = "torch"
if where == "cpu":
    os.environ["KERAS_TORCH_DEVICE"] = "cpu"
import keras
import numpy

keras.utils.set_random_seed(1)
x, y = numpy.random.rand(32, 8).astype("float32"), numpy.random.rand(32, 3).astype("float32")
model = keras.Sequential([keras.layers.Dense(16, "silu"), keras.layers.Dense(3)])
model.compile("adam", "mse")
# Initial values are drawn where the variables are.
model.build((None, 8))
model.set_weights([numpy.random.rand(*w.shape).astype("float32") for w in model.get_weights()])
found = model.fit(x, y, epochs=3, batch_size=8, shuffle=False, verbose=0)
shown = model.layers[0].kernel.value.device.type, found.history["loss"]
""",
    "ignite": """
import ignite.distributed as idist
from ignite.engine import Events, create_supervised_trainer

location = idist.device() if where != "cpu" else torch.device("cpu")
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3))
model = idist.auto_model(model) if where != "cpu" else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.mse_loss, location)
losses = []
trainer.add_event_handler(
    Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output)
)
trainer.run([(torch.randn(4, 8), torch.randn(4, 3)) for _ in range(6)], max_epochs=2)
shown = next(model.parameters()).device.type, losses
""",
    "pytorch_lightning": """
import pytorch_lightning as pl

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.losses = torch.nn.Linear(8, 3), []
    def training_step(self, batch, index):
        assert self.device.type == where
        loss = self.layer(batch).square().mean()
        self.losses.append(loss.item())
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

module = Module()
pl.Trainer(
    accelerator="auto" if where != "cpu" else "cpu", devices=1, max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
).fit(module, torch.utils.data.DataLoader(torch.randn(40, 8), batch_size=4))
shown = where, module.losses
""",
    "ultralytics": """
import cv2, numpy
from pathlib import Path

drawn = numpy.random.default_rng(0)
for part in ("train", "val"):
    for folder in ("images", "labels"):
        Path(folder, part).mkdir(parents=True)
    for index in range(4):
        image, (x, y) = numpy.zeros((64, 64, 3), numpy.uint8), drawn.integers(5, 40, 2)
        image[y : y + 16, x : x + 16] = 255
        cv2.imwrite(f"images/{part}/{index}.png", image)
        label = f"0 {(x + 8) / 64} {(y + 8) / 64} .25 .25"
        Path(f"labels/{part}/{index}.txt").write_text(label)
Path("data.yaml").write_text(
    f"path: {Path.cwd()}\\ntrain: images/train\\nval: images/val\\nnames: {{0: box}}"
)
from ultralytics import YOLO

model, losses = YOLO("yolo11n.yaml"), []
model.add_callback("on_train_batch_end", lambda t: losses.append((t.device.type, t.loss.item())))
model.train(
    data="data.yaml", epochs=2, imgsz=64, batch=2, workers=0, seed=3, plots=False, device=where,
    project="runs", mosaic=0, hsv_h=0, hsv_s=0, hsv_v=0, fliplr=0, translate=0, scale=0,
    erasing=0, verbose=False,
)
model.predict(torch.rand(1, 3, 64, 64), device=where, verbose=False)
(used,) = {used for used, _ in losses}
shown = used, [loss for _, loss in losses]
""",
}


@pytest.mark.parametrize("library", PROGRAMS)
def test_losses(device, tmp_path, library):
    importable(library)
    same_losses(PROGRAMS[library], device, library, tmp_path)


def importable(library: str) -> None:
    """Skips unless the library can be imported, which is tried apart: it may change PyTorch."""
    code = f"import {library}"
    if library == "ultralytics":
        code += ", torchvision"
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip(f"{library} cannot be imported: {result.stderr.splitlines()[-1]}")


def test_a_default_is_not_a_wish(device, tmp_path):
    """An explicit request for the CPU is followed."""
    pytest.importorskip("stable_baselines3")
    program = """
from stable_baselines3.common.utils import get_device
shown = [get_device(name).type for name in ("cpu", "auto", where)]
"""
    name = device.type
    assert shown(program, name, "stable_baselines3", tmp_path) == ["cpu", name, name]


LOADERS = """
import torch_geometric
from torch_geometric.loader import DataLoader, PrefetchLoader
location = torch_geometric.device("auto" if where != "cpu" else "cpu")
graphs = [
    torch_geometric.data.Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 3 * n)))
    for n in (5, 7, 4, 6)
]
layer = torch_geometric.nn.GCNConv(8, 3).to(location)
losses = []
loader = DataLoader(graphs, batch_size=2, pin_memory=where != "cpu")
for batch in PrefetchLoader(loader, None if where != "cpu" else "cpu"):
    assert batch.x.device.type == where, batch.x.device
    loss = layer(batch.x, batch.edge_index).square().mean()
    loss.backward()
    losses += [loss.item(), layer.lin.weight.grad.abs().sum().item()]
for batch in loader:
    losses.append(batch.to(location, non_blocking=True).x.sum().item())
shown = location.type, losses
"""


def test_loaders_of_torch_geometric(device, tmp_path):
    pytest.importorskip("torch_geometric.loader")
    same_losses(LOADERS, device, "torch_geometric", tmp_path)
