"""accelerate, and diffusers, which asks it: a training loop, mixed precision, `device_map`."""

import pytest

from tests.libraries.enabled import same_losses, shown
from tests.support import run_python

pytest.importorskip("accelerate")

PROGRAM = """
mixed = settings[0]
import accelerate

accelerator = accelerate.Accelerator(cpu=where == "cpu", mixed_precision=mixed)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(0, 3, (80,)))
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model, optimizer, loader, schedule = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, batch_size=4), schedule
)
if where != "cpu":
    scaled = accelerator.scaler is not None and accelerator.scaler.is_enabled()
    assert scaled == (mixed == "fp16")
    with accelerator.autocast():
        dtype = model(torch.ones(1, 8, device=where)).dtype
    assert dtype == torch.float32  # converted back
    assert torch.is_autocast_enabled(where) is False
losses = []
for x, y in loader:
    assert x.device.type == where
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).item())
accelerator.save_state("state")
accelerator.load_state("state")
shown = accelerator.device.type, losses
"""


@pytest.mark.parametrize("mixed", ["no", "bf16", "fp16"])
def test_a_training_loop(device, mixed, tmp_path):
    closeness = {} if mixed == "no" else {"rtol": 2e-2, "atol": 1e-4}
    same_losses(PROGRAM, device, "accelerate", tmp_path, mixed, **closeness)


def test_too_late(device):
    run_python(
        """
import pytest
import accelerate
import torch_outboard.integrations

assert accelerate.Accelerator().device.type == "cpu"
with pytest.warns(UserWarning, match="accelerate has chosen cpu already"):
    torch_outboard.integrations.enable("accelerate")
""",
        ACCELERATE_TORCH_DEVICE=None,
    )


AUTOMATIC = """
import accelerate
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
x = torch.randn(2, 8)
locations = accelerate.infer_auto_device_map(model, max_memory=accelerate.utils.get_max_memory())
assert set(locations.values()) == ({"cpu"} if where == "cpu" else {0}), locations
model = accelerate.dispatch_model(model, locations)
shown = next(model.parameters()).device.type, model(x.to(model[0].weight.device)).tolist()
"""


def test_device_map(device, tmp_path):
    same_losses(AUTOMATIC, device, "accelerate", tmp_path)


def test_float16_is_refused_without_the_integration(device, tmp_path):
    """The example of docs/start/models.md."""
    out = shown(
        """
import accelerate
os.environ["ACCELERATE_TORCH_DEVICE"] = settings[0]
try:
    accelerate.Accelerator(mixed_precision="fp16")
except ValueError as error:
    shown = str(error)
""",
        "cpu",
        "accelerate",
        tmp_path,
        device.type,
    )
    assert "fp16 mixed precision requires a device in" in out


PIPELINE = """
import diffusers
unet = diffusers.UNet2DModel(
    sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
)
diffusers.DDPMPipeline(unet, diffusers.DDIMScheduler(num_train_timesteps=50)).save_pretrained("p")
location = "cpu" if where == "cpu" else settings[0]
pipe = diffusers.DDPMPipeline.from_pretrained("p", device_map=location)
pipe.set_progress_bar_config(disable=True)
generator = torch.Generator().manual_seed(1)
image = pipe(generator=generator, num_inference_steps=2, output_type="np").images[0]
shown = pipe.unet.device.type, image.tolist()
"""


@pytest.mark.parametrize("location", ["name", "balanced"])
def test_device_map_of_diffusers(device, tmp_path, location):
    pytest.importorskip("diffusers")
    name = device.type if location == "name" else location
    same_losses(PIPELINE, device, "accelerate", tmp_path, name)
