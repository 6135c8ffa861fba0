"""Models of libraries, small and with random weights, trained for 20 steps: `make test-libraries`.

They come from requirements/libraries.txt, which the other tests do without. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.programs.comparison import Run

pytestmark = [pytest.mark.slow, pytest.mark.separate]

STEPS = 20
WORDS = 40
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")


def words(run: Run, *size: int) -> torch.Tensor:
    return run.integers(3, WORDS, size)


def language(run: Run) -> dict[str, torch.Tensor]:
    indices = words(run, 2, 10)
    return {"input_ids": indices, "labels": indices}


def masked(run: Run) -> dict[str, torch.Tensor]:
    attended = torch.ones(2, 10, dtype=torch.long)
    attended[1, 6:] = 0
    return {**language(run), "attention_mask": attended.to(run.device)}


def translation(run: Run) -> dict[str, torch.Tensor]:
    return {"input_ids": words(run, 2, 8), "labels": words(run, 2, 6)}


def speech(run: Run) -> dict[str, torch.Tensor]:
    return {"input_features": run.draw(2, 8, 32), "labels": words(run, 2, 6)}


def pictures(run: Run) -> dict[str, torch.Tensor]:
    return {"pixel_values": run.draw(2, 3, 16, 16), "labels": run.integers(0, 5, (2,))}


# Model and configuration of transformers, with what makes it small, and a batch.
# Where a model has a choice, its activation is one that CPU computes without oneDNN.
MODELS: dict[str, tuple[str, str, dict[str, Any], Callable[[Run], dict[str, torch.Tensor]]]] = {
    "GPT-2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16}
        | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        masked,
    ),
    "T5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2}
        | {"num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0}
        | {"feed_forward_proj": "gated-silu"},
        translation,
    ),
    "Whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {"vocab_size": WORDS, "num_mel_bins": 8, "d_model": 16, "encoder_layers": 1}
        | {"decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
        | {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 16}
        | {"max_target_positions": 16, "dropout": 0.0, "activation_function": "silu"}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
        | {"suppress_tokens": None, "begin_suppress_tokens": None},
        speech,
    ),
    "Mamba": (
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
        language,
    ),
    "Mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**SIZES, "intermediate_size": 24, "num_key_value_heads": 2, "num_local_experts": 4}
        | {"output_router_logits": True},
        language,
    ),
    "LLaMA": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**SIZES, "intermediate_size": 24, "num_key_value_heads": 2},
        masked,
    ),
    "BERT": (
        "BertForMaskedLM",
        "BertConfig",
        {**SIZES, "intermediate_size": 32, "hidden_dropout_prob": 0.0}
        | {"attention_probs_dropout_prob": 0.0, "hidden_act": "silu"},
        masked,
    ),
    "ViT": (
        "ViTForImageClassification",
        "ViTConfig",
        {**SIZES, "intermediate_size": 32, "image_size": 16, "patch_size": 4, "num_labels": 5}
        | {"hidden_act": "silu"},
        pictures,
    ),
}  # fmt: skip


def made(name: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    model, configuration, settings, _ = MODELS[name]
    return getattr(transformers, model)(getattr(transformers, configuration)(**settings)).train()


def trained(run: Run, model: nn.Module, draw: Callable[[Run], dict[str, torch.Tensor]]):
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-3, foreach=False)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**draw(run)).loss
        loss.backward()
        norm = nn.utils.clip_grad_norm_(learned, 1.0, foreach=False)
        optimizer.step()
        yield {"loss": loss, "norm": norm, "model": model}


@pytest.mark.parametrize("name", MODELS)
def test_transformers(same_as_on_cpu, name):
    def program(run):
        model = run.on_device(made(name))
        if name == "Mixtral" and run.exact:  # grouped products know no float64
            model.set_experts_implementation("eager")
        yield from trained(run, model, MODELS[name][3])

    same_as_on_cpu(program, bitwise=name != "Whisper")  # its GELU is oneDNN's on CPU


@pytest.mark.parametrize("name", ["GPT-2", "LLaMA", "Mamba"])
def test_generation(same_as_on_cpu, name):
    """Word by word with the library's own caches; without drawing, so the words are the same."""

    def program(run):
        model = run.on_device(made(name)).eval()
        for _ in range(3):
            start = words(run, 2, 4)
            result = model.generate(
                start,
                attention_mask=torch.ones_like(start),
                max_new_tokens=8,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
            yield {"words": result.sequences, "scores": result.logits}

    same_as_on_cpu(program)


@pytest.mark.parametrize("where", ["before moving", "after moving"])
@pytest.mark.parametrize("kind", ["LoRA", "DoRA", "merged LoRA"])
def test_peft(same_as_on_cpu, kind, where):
    """Adapters on a model that moves to the device with them, or is there already."""
    peft = pytest.importorskip("peft")

    def program(run):
        base = run.precise(made("LLaMA"))
        if where == "after moving":
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
        if kind == "merged LoRA":
            merged = model.merge_and_unload().eval()
            yield {"scores": merged(words(run, 2, 6)).logits}

    same_as_on_cpu(program)


@pytest.mark.parametrize("name", ["UNet2DModel", "AutoencoderKL"])
def test_diffusers(same_as_on_cpu, name):
    diffusers = pytest.importorskip("diffusers")

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
