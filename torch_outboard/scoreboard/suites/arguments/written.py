"""Arguments of overloads that the operator database does not reach, where no schema tells them."""

from collections.abc import Callable
from typing import Any

import torch


def _list(*shape: int) -> list[torch.Tensor]:
    return [torch.rand(shape) + 0.5, torch.rand(shape) + 0.5]


def _steps() -> list[torch.Tensor]:
    return [torch.tensor(2.0), torch.tensor(2.0)]


def _adam(lr: Any) -> dict[str, Any]:
    moments: dict[str, Any] = {"exp_avgs": _list(3, 4), "exp_avg_sqs": _list(3, 4)}
    numbers: dict[str, Any] = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6}
    return {
        "self": _list(3, 4), "grads": _list(3, 4), **moments, "max_exp_avg_sqs": _list(3, 4),
        "state_steps": _steps(), "lr": lr, **numbers, "amsgrad": True, "maximize": False,
    }  # fmt: skip


def _sgd(lr: Any) -> dict[str, Any]:
    return {
        "self": _list(3, 4), "grads": _list(3, 4), "momentum_buffer_list": _list(3, 4),
        "weight_decay": 0.1, "momentum": 0.9, "lr": lr, "dampening": 0.1, "nesterov": False,
        "maximize": False, "is_first_step": False,
    }  # fmt: skip


def _adagrad() -> dict[str, Any]:
    return {
        "self": _list(3, 4), "grads": _list(3, 4), "state_sums": _list(3, 4),
        "state_steps": _steps(), "lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-6,
        "maximize": False,
    }  # fmt: skip


def _with_tensor() -> dict[str, Any]:
    return {"self": _list(3, 4), "other": torch.tensor(2.0)}


def _scatter(src: Any, name: str) -> dict[str, Any]:
    index = torch.tensor([[0, 1, 2], [2, 0, 1]])
    return {"self": torch.rand(3, 3), "dim": 0, "index": index, name: src, "reduce": "add"}


def _scatter_tensor() -> dict[str, Any]:
    return _scatter(torch.rand(2, 3), "src")


def _scatter_number() -> dict[str, Any]:
    return _scatter(2, "value")


def _unscale() -> dict[str, Any]:
    return {"self": _list(3, 4), "found_inf": torch.zeros(1), "inv_scale": torch.full((1,), 0.5)}


def _update_scale() -> dict[str, Any]:
    return {
        "self": torch.full((1,), 4.0), "growth_tracker": torch.ones(1, dtype=torch.int32),
        "found_inf": torch.zeros(1), "scale_growth_factor": 2.0, "scale_backoff_factor": 0.5,
        "growth_interval": 2,
    }  # fmt: skip


def _norm(training: bool | None) -> dict[str, Any]:
    arguments = {
        "input": torch.rand(2, 3, 4), "weight": torch.rand(3), "bias": torch.rand(3),
        "running_mean": torch.rand(3), "running_var": torch.rand(3) + 0.5, "momentum": 0.1,
        "eps": 1e-3,
    }  # fmt: skip
    return arguments if training is None else {**arguments, "training": training}


def _attention() -> dict[str, Any]:
    x = torch.rand(2, 3, 4)
    return {
        "query": x, "key": x, "value": x, "embed_dim": 4, "num_head": 2,
        "qkv_weight": torch.rand(12, 4), "qkv_bias": torch.rand(12),
        "proj_weight": torch.rand(4, 4), "proj_bias": torch.rand(4),
    }  # fmt: skip


def _encoder_layer() -> dict[str, Any]:
    return {
        "src": torch.rand(2, 3, 4), "embed_dim": 4, "num_heads": 2,
        "qkv_weight": torch.rand(12, 4), "qkv_bias": torch.rand(12),
        "proj_weight": torch.rand(4, 4), "proj_bias": torch.rand(4), "use_gelu": False,
        "norm_first": False, "eps": 1e-3, "norm_weight_1": torch.rand(4),
        "norm_bias_1": torch.rand(4), "norm_weight_2": torch.rand(4),
        "norm_bias_2": torch.rand(4), "ffn_weight_1": torch.rand(5, 4),
        "ffn_bias_1": torch.rand(5), "ffn_weight_2": torch.rand(4, 5),
        "ffn_bias_2": torch.rand(4),
    }  # fmt: skip


def _bags() -> dict[str, Any]:
    return {
        "weight": torch.rand(5, 3), "indices": torch.tensor([0, 4, 2, 2]),
        "offsets": torch.tensor([0, 1]), "mode": 1,
    }  # fmt: skip


def _bags_backward() -> dict[str, Any]:
    return {
        "grad": torch.rand(2, 3), "indices": torch.tensor([0, 4, 2, 2]),
        "offset2bag": torch.tensor([0, 1, 1, 1]), "bag_size": torch.tensor([1, 3]),
        "maximum_indices": torch.tensor([1, 3]), "num_weights": 5,
        "scale_grad_by_freq": False, "mode": 0, "per_sample_weights": None,
    }  # fmt: skip


def _resize_backward() -> dict[str, Any]:
    return {
        "grad_output": torch.rand(1, 2, 6, 6), "output_size": [6, 6], "input_size": [1, 2, 4, 4],
        "align_corners": False,
    }  # fmt: skip


WRITTEN: dict[str, Callable[[], dict[str, Any]]] = {
    "aten::_assert_async": lambda: {"self": torch.ones(1)},
    "aten::_functional_assert_async.msg": lambda: {
        "self": torch.ones(1), "assert_msg": "says", "dep_token": torch.ones(1),
    },
    "aten::_native_batch_norm_legit_no_training": lambda: _norm(None),
    "aten::_native_multi_head_attention": _attention,
    "aten::_transformer_encoder_layer_fwd": _encoder_layer,
    "aten::adaptive_avg_pool3d_backward.grad_input": lambda: {
        "grad_output": torch.rand(1, 2, 2, 2, 2), "self": torch.rand(1, 2, 4, 4, 4),
        "grad_input": torch.zeros(1, 2, 4, 4, 4),
    },
    "aten::_embedding_bag_forward_only": _bags,
    "aten::_embedding_bag_dense_backward": _bags_backward,
    "aten::rrelu_with_noise.out": lambda: {
        "self": torch.randn(3, 4), "noise": torch.zeros(3, 4), "out": torch.zeros(3, 4),
    },
    "aten::_histogramdd_from_bin_tensors": lambda: {
        "self": torch.rand(5, 2), "bins": [torch.tensor([0.0, 0.5, 1.0])] * 2,
    },
    "aten::norm.ScalarOpt_dim_dtype": lambda: {
        "self": torch.rand(3, 4), "p": 2, "dim": [1], "keepdim": False, "dtype": torch.float64,
    },
    "aten::_upsample_bicubic2d_aa_backward": _resize_backward,
    "aten::_upsample_lanczos2d_aa_backward": _resize_backward,
    "aten::glu_jvp": lambda: {
        "glu": torch.rand(3, 2), "x": torch.rand(3, 4), "dx": torch.rand(3, 4), "dim": 1,
    },
    "aten::glu_backward_jvp": lambda: {
        "grad_x": torch.rand(3, 4), "grad_glu": torch.rand(3, 2), "x": torch.rand(3, 4),
        "dgrad_glu": torch.rand(3, 2), "dx": torch.rand(3, 4), "dim": 1,
    },
    "aten::_fused_adam_": lambda: _adam(0.1),
    "aten::_fused_adam_.tensor_lr": lambda: _adam(torch.tensor(0.1)),
    "aten::_fused_adamw_": lambda: _adam(0.1),
    "aten::_fused_adamw_.tensor_lr": lambda: _adam(torch.tensor(0.1)),
    "aten::_fused_sgd_": lambda: _sgd(0.1),
    "aten::_fused_sgd_.tensor_lr": lambda: _sgd(torch.tensor(0.1)),
    "aten::_fused_adagrad_": _adagrad,
    "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "aten::_amp_update_scale_": _update_scale,
    "aten::scatter.reduce": _scatter_tensor,
    "aten::scatter_.reduce": _scatter_tensor,
    "aten::scatter.value_reduce": _scatter_number,
    "aten::scatter_.value_reduce": _scatter_number,
    "aten::scatter.reduce_out": lambda: {**_scatter_tensor(), "out": torch.zeros(3, 3)},
    "aten::scatter.value_reduce_out": lambda: {**_scatter_number(), "out": torch.zeros(3, 3)},
    **{
        f"aten::_foreach_{name}.Tensor": _with_tensor
        for name in ("add", "add_", "mul", "mul_", "div", "div_")
    },
}  # fmt: skip
