"""A network that is scripted and traced on the device, saved, and loaded on another device.

python examples/torchscript/run.py
"""

import io
import warnings

import torch

import torch_outboard

# Newer versions of PyTorch deprecate TorchScript.
warnings.filterwarnings("ignore", category=DeprecationWarning)
torch_outboard.fallback.set_policy(copied="allow")


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.scores = torch.nn.Linear(4 * 8 * 8, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.features(images)))
        if x.dim() != 4:  # a branch: only a script keeps it
            raise ValueError("images are (batch, 1, 8, 8)")
        return self.scores(x.flatten(1))


torch.manual_seed(0)
on_cpu = Classifier().eval()
images = torch.randn(2, 1, 8, 8)
expected = on_cpu(images)

device = torch_outboard.device_name()
model = Classifier().eval().to(device)
model.load_state_dict(on_cpu.state_dict())

scripted = torch.jit.script(model)
traced = torch.jit.trace(model, images.to(device))
frozen = torch.jit.freeze(scripted)
for name, run in (("scripted", scripted), ("traced", traced), ("frozen", frozen)):
    for _ in range(3):  # the first calls profile, the later ones run the optimized code
        scores = run(images.to(device))
    torch.testing.assert_close(scores.cpu(), expected, atol=1e-4, rtol=1e-4)
    print(f"{name:9} on {scores.device}: {scores[0].tolist()}")

file = io.BytesIO()
torch.jit.save(scripted, file)
for target in ("cpu", device):
    file.seek(0)
    loaded = torch.jit.load(file, map_location=target)
    scores = loaded(images.to(target))
    torch.testing.assert_close(scores.cpu(), expected, atol=1e-4, rtol=1e-4)
    print(f"{'loaded':9} on {scores.device}: {scores[0].tolist()}")

print([node.kind() for node in traced.inlined_graph.nodes() if node.kind().startswith("aten::")])
