"""diffusers: a network that takes noise away, and an autoencoder."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.libraries.enabled import same_losses
from tests.libraries.models import STEPS

diffusers = pytest.importorskip("diffusers")


@pytest.mark.parametrize("name", ["UNet2DModel", "AutoencoderKL"])
def test_diffusers(same_as_on_cpu, name):
    def program(run):
        if name == "UNet2DModel":
            model = diffusers.UNet2DModel(
                sample_size=8,
                block_out_channels=(8, 16),
                layers_per_block=1,
                norm_num_groups=4,
                attention_head_dim=8,
                down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            )
        else:
            model = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4)
        model = run.on_device(model)
        schedule = diffusers.DDPMScheduler(num_train_timesteps=50)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        for _ in range(STEPS):
            clean, noise = run.draw(2, 3, 8, 8), run.draw(2, 3, 8, 8)
            optimizer.zero_grad()
            if name == "UNet2DModel":
                times = run.integers(0, 50, (2,))
                noisy = schedule.add_noise(clean, noise, times)
                loss = functional.mse_loss(model(noisy, times).sample, noise)
            else:
                encoded = model.encode(clean).latent_dist
                loss = functional.mse_loss(model.decode(encoded.mode()).sample, clean)
                loss = loss + 1e-3 * encoded.kl().mean()
            loss.backward()
            optimizer.step()
            yield {"loss": loss, "model": model}

    same_as_on_cpu(program, bitwise=False)  # PyTorch's group norm keeps channels last on CPU only


PIPELINE = """
import diffusers
unet = diffusers.UNet2DModel(
    sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
)
diffusers.DDPMPipeline(unet, diffusers.DDIMScheduler(num_train_timesteps=50)).save_pretrained("p")
place = "cpu" if where == "cpu" else settings[0]
pipe = diffusers.DDPMPipeline.from_pretrained("p", device_map=place)
pipe.set_progress_bar_config(disable=True)
generator = torch.Generator().manual_seed(1)
image = pipe(generator=generator, num_inference_steps=2, output_type="np").images[0]
shown = pipe.unet.device.type, image.tolist()
"""


@pytest.mark.parametrize("place", ["name", "balanced"])
def test_device_map(device, tmp_path, place):
    name = device.type if place == "name" else place
    same_losses(PIPELINE, device, "accelerate", tmp_path, name)
