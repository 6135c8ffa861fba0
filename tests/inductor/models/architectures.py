"""Models of transformers that are tiny, have random weights and draw nothing, with batches.

Nothing is downloaded.
"""

from __future__ import annotations

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


def embedded(length: int = LENGTH) -> Batch:
    batch = masked(length)
    del batch["labels"]
    return batch


def translation(length: int = LENGTH) -> Batch:
    return {"input_ids": words(2, length), "labels": words(2, 6)}


def pictures(side: int = SIDE) -> Batch:
    return {"pixel_values": torch.randn(2, 3, side, side), "labels": torch.randint(0, 2, (2,))}


def seen(side: int = SIDE) -> Batch:
    return {"pixel_values": torch.randn(2, 3, side, side)}


def segments(side: int = SIDE) -> Batch:
    return {
        "pixel_values": torch.randn(2, 3, side, side),
        "labels": torch.randint(0, 2, (2, side, side)),
    }


def captions(length: int = LENGTH) -> Batch:
    return {**seen(), **embedded(length), "return_loss": True}


def spectra(length: int = 32) -> Batch:
    return {"input_features": torch.randn(2, 8, length), "labels": words(2, 6)}


def waves(length: int = 400) -> Batch:
    return {"input_values": torch.randn(2, length), "labels": words(2, 4)}


def series(length: int = 16) -> Batch:
    return {"past_values": torch.randn(2, length, 2), "future_values": torch.randn(2, 4, 2)}


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

    def made(self, drawing: bool = False) -> nn.Module:
        """In training mode, from the current random state; with its usual dropout if `drawing`."""
        import transformers

        configuration = getattr(transformers, self.configuration)(**self.settings)
        if not drawing:
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
    family, _, configured = family.partition("/")
    return Architecture(f"{family}ForCausalLM", f"{configured or family}Config", settings, batch)


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
    "RoBERTa": Architecture(
        "RobertaForSequenceClassification", "RobertaConfig",
        base(max_position_embeddings=64, **_CLASSES), sentences,
    ),
    "DistilBERT": Architecture(
        "DistilBertForMaskedLM", "DistilBertConfig",
        {"vocab_size": WORDS, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 32}, masked,
    ),
    "ALBERT": Architecture(
        "AlbertForMaskedLM", "AlbertConfig", base(embedding_size=8), masked,
    ),
    "ELECTRA": Architecture(
        "ElectraForPreTraining", "ElectraConfig", base(embedding_size=8), embedded,
    ),
    "DeBERTa": Architecture(
        "DebertaV2ForSequenceClassification", "DebertaV2Config",
        base(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
             norm_rel_ebd="layer_norm", share_att_key=True, pooler_hidden_size=16,
             **_CLASSES), sentences,
    ),
    "XLNet": Architecture(
        "XLNetForSequenceClassification", "XLNetConfig",
        {"vocab_size": WORDS, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 32,
         **_CLASSES}, sentences,
    ),
    "FNet": Architecture(
        "FNetForMaskedLM", "FNetConfig", base(use_tpu_fourier_optimizations=False), language,
    ),
    "Longformer": Architecture(
        "LongformerForMaskedLM", "LongformerConfig",
        base(attention_window=4, max_position_embeddings=64), masked,
    ),
    "ModernBERT": Architecture(
        "ModernBertForMaskedLM", "ModernBertConfig",
        base(global_attn_every_n_layers=2, local_attention=4, cls_token_id=1, sep_token_id=2),
        masked,
    ),
    # Decoders.
    "GPT-2": Architecture(
        "GPT2LMHeadModel", "GPT2Config",
        {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64,
         "bos_token_id": 1, "eos_token_id": 2, "loss_type": "ForCausalLM"},
        masked,
    ),
    "GPT-NeoX": causal("GPTNeoX", base(max_position_embeddings=64)),
    "OPT": causal(
        "OPT", base(ffn_dim=32, word_embed_proj_dim=16, max_position_embeddings=64),
    ),
    "BLOOM": causal("Bloom", {"vocab_size": WORDS, "hidden_size": 16, "n_layer": 2, "n_head": 4}),
    "Falcon": causal("Falcon", base(alibi=True)),
    "Llama": causal("Llama", decoder()),
    "Mistral": causal("Mistral", decoder(sliding_window=4)),
    "Phi": causal("Phi", decoder(qk_layernorm=True)),
    "Phi-3": causal("Phi3", decoder(original_max_position_embeddings=64)),
    "Qwen2": causal("Qwen2", decoder()),
    "Qwen3": causal("Qwen3", decoder(head_dim=8)),
    "Gemma": causal("Gemma", decoder(head_dim=8)),
    "Gemma 2": causal(
        "Gemma2", decoder(head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
    ),
    "Gemma 3": causal(
        "Gemma3/Gemma3Text", decoder(head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
    ),
    "StableLM": causal("StableLm", decoder(use_parallel_residual=True)),
    "OLMo 2": causal("Olmo2", decoder()),
    "Granite": causal("Granite", decoder(attention_multiplier=0.5, residual_multiplier=0.7)),
    "Cohere 2": causal("Cohere2", decoder(sliding_window=4, head_dim=4)),
    # Mixtures of experts.
    "Mixtral": causal(
        "Mixtral", decoder(num_local_experts=4, output_router_logits=True, **_EXPERTS)
    ),
    "Qwen2 MoE": causal(
        "Qwen2Moe", decoder(num_experts=4, moe_intermediate_size=8,
                            shared_expert_intermediate_size=16, **_EXPERTS),
    ),
    "Qwen3 MoE": causal(
        "Qwen3Moe", decoder(num_experts=4, moe_intermediate_size=8, head_dim=8, **_EXPERTS),
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
    "Switch": Architecture(
        "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig",
        {"vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1,
         "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 0, "num_heads": 4,
         "num_experts": 2, "expert_capacity": 16, "router_jitter_noise": 0.0,
         "decoder_start_token_id": 0},
        translation,
    ),
    # Recurrent ones.
    "Mamba": causal(
        "Mamba", {"vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
        language,
    ),
    "Mamba 2": causal(
        "Mamba2",
        {"vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2,
         "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
        language,
    ),
    "RWKV": causal(
        "Rwkv", {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2,
                 "attention_hidden_size": 16, "intermediate_size": 32, "context_length": 16},
        language,
    ),
    "RecurrentGemma": causal(
        "RecurrentGemma",
        decoder(lru_width=16, attention_window_size=4, num_hidden_layers=3), language,
    ),
    "LFM2": causal(
        "Lfm2", decoder(block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention"]),
    ),
    # Encoders with decoders.
    "T5": Architecture(
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2,
         "num_heads": 4, "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu"},
        translation,
    ),
    "BART": Architecture(
        "BartForConditionalGeneration", "BartConfig",
        {"vocab_size": WORDS, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32,
         "decoder_ffn_dim": 32, "max_position_embeddings": 32, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
        translation,
    ),
    # Pictures.
    "ViT": Architecture(
        "ViTForImageClassification", "ViTConfig", base(image_size=SIDE, patch_size=8, **_CLASSES),
        pictures,
    ),
    "DINOv2": Architecture(
        "Dinov2ForImageClassification", "Dinov2Config",
        base(image_size=SIDE, patch_size=8, **_CLASSES), pictures,
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
    "ResNet": Architecture(
        "ResNetForImageClassification", "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic",
         **_CLASSES},
        pictures,
    ),
    "SegFormer": Architecture(
        "SegformerForSemanticSegmentation", "SegformerConfig",
        {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16],
         "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2],
         "mlp_ratios": [2, 2], "decoder_hidden_size": 16},
        segments,
    ),
    "CLIP": Architecture(
        "CLIPModel", "CLIPConfig",
        {"text_config": base(max_position_embeddings=32, projection_dim=16),
         "vision_config": base(image_size=SIDE, patch_size=8, projection_dim=16),
         "projection_dim": 16},
        captions,
    ),
    "SigLIP": Architecture(
        "SiglipModel", "SiglipConfig",
        {"text_config": base(max_position_embeddings=32),
         "vision_config": base(image_size=SIDE, patch_size=8)},
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
    "HuBERT": Architecture("HubertForCTC", "HubertConfig", base(**_SPEECH), waves),
    "PatchTST": Architecture(
        "PatchTSTForPrediction", "PatchTSTConfig",
        {"num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4,
         "num_hidden_layers": 1, "d_model": 16, "num_attention_heads": 2, "ffn_dim": 32,
         "prediction_length": 4, "do_mask_input": False},
        series,
    ),
}  # fmt: skip
