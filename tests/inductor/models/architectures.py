"""Models of transformers that are tiny, have random weights and draw nothing, with batches.

Nothing is downloaded. Of architectures with the same operators one is here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

WORDS = 40
LENGTH = 10
SIDE = 32  # of pictures

Batch = dict[str, Any]


def words(*size: int) -> torch.Tensor:
    return torch.randint(3, WORDS, size)


def language(length: int = LENGTH) -> Batch:
    indices = words(2, length)
    return {"input_ids": indices, "labels": indices}


def masked(length: int = LENGTH) -> Batch:
    attended = torch.ones(2, length, dtype=torch.long)
    attended[1, length // 2 :] = 0
    return {**language(length), "attention_mask": attended}


def sentences(length: int = LENGTH) -> Batch:
    return {**masked(length), "labels": torch.randint(0, 2, (2,))}


def translation(length: int = LENGTH) -> Batch:
    return {"input_ids": words(2, length), "labels": words(2, 6)}


def pictures(side: int = SIDE) -> Batch:
    return {"pixel_values": torch.randn(2, 3, side, side), "labels": torch.randint(0, 2, (2,))}


def captions(length: int = LENGTH) -> Batch:
    batch = {**pictures(), **masked(length), "return_loss": True}
    del batch["labels"]
    return batch


def spectra(length: int = 32) -> Batch:
    return {"input_features": torch.randn(2, 8, length), "labels": words(2, 6)}


def waves(length: int = 400) -> Batch:
    return {"input_values": torch.randn(2, length), "labels": words(2, 4)}


@dataclass(frozen=True)
class Architecture:
    """Attributes:
    model, configuration: classes of transformers.
    settings: what makes it small.
    batch: makes the arguments of a call, of a length or side.
    """

    model: str
    configuration: str
    settings: dict[str, Any]
    batch: Callable[..., Batch]

    def made(self) -> nn.Module:
        """In training mode, from the current random state."""
        import transformers

        configuration = getattr(transformers, self.configuration)(**self.settings)
        without_draws(configuration)
        model = getattr(transformers, self.model)(configuration).train()
        # Not told by the name of every class: a warning, which cuts the graph.
        model.loss_type = self.settings.get("loss_type", model.loss_type)
        return model


def without_draws(configuration: Any) -> None:
    """Sets the probabilities of dropout and of skipped layers to zero."""
    for name, value in list(vars(configuration).items()):
        if isinstance(value, float) and ("drop" in name or name.startswith("mask_")):
            setattr(configuration, name, 0.0)
        elif hasattr(value, "to_dict"):
            without_draws(value)


def base(**others: Any) -> dict[str, Any]:
    """Settings of most models, with others."""
    return {
        "vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **others,
    }  # fmt: skip


def decoder(**others: Any) -> dict[str, Any]:
    """Settings of most decoders: fewer heads of keys than of queries."""
    return base(num_key_value_heads=2, max_position_embeddings=64, **others)


def causal(family: str, settings: dict[str, Any], batch: Callable[..., Batch] = masked):
    """A decoder whose classes are named after its family."""
    return Architecture(f"{family}ForCausalLM", f"{family}Config", settings, batch)


_EXPERTS = {"num_experts_per_tok": 2}
# Otherwise found in the first call, after which a second graph is needed.
_CLASSES = {"problem_type": "single_label_classification"}
_SPEECH = {
    "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "apply_spec_augment": False, "num_feat_extract_layers": 2,
    "ctc_loss_reduction": "mean", "ctc_zero_infinity": True,
}  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {
    # Encoders of texts.
    "BERT": Architecture("BertForMaskedLM", "BertConfig", base(), masked),
    "DeBERTa": Architecture(
        "DebertaV2ForSequenceClassification", "DebertaV2Config",
        base(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
             norm_rel_ebd="layer_norm", share_att_key=True, pooler_hidden_size=16,
             **_CLASSES), sentences,
    ),
    "FNet": Architecture(
        "FNetForMaskedLM", "FNetConfig", base(use_tpu_fourier_optimizations=False), language,
    ),
    "Longformer": Architecture(
        "LongformerForMaskedLM", "LongformerConfig",
        base(attention_window=4, max_position_embeddings=64), masked,
    ),
    # Decoders.
    "GPT-2": Architecture(
        "GPT2LMHeadModel", "GPT2Config",
        {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64,
         "bos_token_id": 1, "eos_token_id": 2, "loss_type": "ForCausalLM"},
        masked,
    ),
    "Falcon": causal("Falcon", base(alibi=True)),
    "Llama": causal("Llama", decoder()),
    "Mistral": causal("Mistral", decoder(sliding_window=4)),
    "Gemma 2": causal(
        "Gemma2", decoder(head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
    ),
    # Mixtures of experts.
    "Mixtral": causal(
        "Mixtral", decoder(num_local_experts=4, output_router_logits=True, **_EXPERTS)
    ),
    "DeepSeek V3": causal(
        "DeepseekV3", base(
            num_key_value_heads=4, max_position_embeddings=64, n_routed_experts=4,
            num_experts_per_tok=2, n_group=2, topk_group=1,
            moe_intermediate_size=8, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4,
            qk_nope_head_dim=4, v_head_dim=4, first_k_dense_replace=1, n_shared_experts=1),
    ),
    "gpt-oss": causal(
        "GptOss", decoder(num_local_experts=4, head_dim=8, sliding_window=4, **_EXPERTS),
    ),
    # Recurrent ones.
    "Mamba": causal(
        "Mamba", {"vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
        language,
    ),
    # Encoders with decoders.
    "T5": Architecture(
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2,
         "num_heads": 4, "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu"},
        translation,
    ),
    # Pictures.
    "ViT": Architecture(
        "ViTForImageClassification", "ViTConfig", base(image_size=SIDE, patch_size=8, **_CLASSES),
        pictures,
    ),
    "Swin": Architecture(
        "SwinForImageClassification", "SwinConfig",
        {"image_size": SIDE, "patch_size": 4, "embed_dim": 8, "depths": [2, 2],
         "num_heads": [2, 4], "window_size": 4, **_CLASSES},
        pictures,
    ),
    "ConvNeXt": Architecture(
        "ConvNextForImageClassification", "ConvNextConfig",
        {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 2, 1], "layer_scale_init_value": 0.1,
         **_CLASSES},
        pictures,
    ),
    "CLIP": Architecture(
        "CLIPModel", "CLIPConfig",
        {"text_config": base(max_position_embeddings=32, projection_dim=16),
         "vision_config": base(image_size=SIDE, patch_size=8, projection_dim=16),
         "projection_dim": 16},
        captions,
    ),
    # Sound and series of numbers.
    "Whisper": Architecture(
        "WhisperForConditionalGeneration", "WhisperConfig",
        {"vocab_size": WORDS, "num_mel_bins": 8, "d_model": 16, "encoder_layers": 1,
         "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 16,
         "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None},
        spectra,
    ),
    "wav2vec 2.0": Architecture("Wav2Vec2ForCTC", "Wav2Vec2Config", base(**_SPEECH), waves),
}  # fmt: skip
