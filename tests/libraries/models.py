"""Models of transformers that are small and have random weights, with batches for them.

Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.programs.comparison import Run

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20
WORDS = 40
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


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
}  # fmt: skip


def made(name: str) -> nn.Module:
    import transformers

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
