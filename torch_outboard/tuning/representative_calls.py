"""Calls that stand for their family of kernels when ways are compared.

A call names the overload that it is about, and the operator tables say which family that belongs
to: a new family is measured as soon as one of its overloads stands here. `elements` is what the
router looks at: the number of elements of the first tensor argument, or of all tensors in a first
list.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Run = Callable[[], object]
# Copies within a device have no row in the tables; their family, and the overload that does them.
COPY = "copy"
COPY_OVERLOAD = "aten::_copy_from"
# Nor have layers of LSTM, which are a call of their steps in time on the device.
LSTM = "recurrent_layer"
LSTM_OVERLOAD = "aten::lstm.input"


@dataclass(frozen=True)
class Call:
    """One piece of work of any size."""

    overload: str  # "aten::add.Tensor"
    # For a device and a number of elements: a function that does the work once.
    prepare: Callable[[torch.device, int], Run]
    # The overload whose device kernel shows that the device did it: if not that one, a part of it.
    part: str = ""

    @property
    def kernel(self) -> str:
        return self.part or self.overload


def _side(elements: int, *others: int) -> int:
    """The side of a square which with the other extents has about `elements` elements."""
    return max(1, math.isqrt(elements // math.prod(others)))


def _vector(function: Callable[[torch.Tensor], object]) -> Callable[[torch.device, int], Run]:
    def prepare(device: torch.device, elements: int) -> Run:
        x = torch.rand(elements, device=device)
        return lambda: function(x)

    return prepare


def _rows(device: torch.device, elements: int) -> torch.Tensor:
    return torch.rand(-(-elements // 256), 256, device=device)


def _on(
    inputs: Callable[[torch.device, int], torch.Tensor], function: Callable[[torch.Tensor], object]
) -> Callable[[torch.device, int], Run]:
    def prepare(device: torch.device, elements: int) -> Run:
        x = inputs(device, elements)
        return lambda: function(x)

    return prepare


def _matrix(function: Callable[[torch.Tensor], object]) -> Callable[[torch.device, int], Run]:
    return _on(_rows, function)


def _add(device: torch.device, elements: int) -> Run:
    x, y = torch.rand(elements, device=device), torch.rand(elements, device=device)
    return lambda: x + y


def _in_place(device: torch.device, elements: int) -> Run:
    x, y = torch.rand(elements, device=device), torch.rand(elements, device=device)
    return lambda: x.add_(y, alpha=1e-6)


def _square_product(device: torch.device, elements: int) -> Run:
    side = _side(elements)
    x, y = (torch.rand(side, side, device=device) for _ in range(2))
    return lambda: x @ y


def _batched_product(device: torch.device, elements: int) -> Run:
    side = _side(elements, 8)
    x, y = (torch.rand(8, side, side, device=device) for _ in range(2))
    return lambda: torch.bmm(x, y)


def _linear(device: torch.device, elements: int) -> Run:
    side = _side(elements)
    weight = torch.rand(side, side, device=device)
    bias, x = torch.rand(side, device=device), torch.rand(side, side, device=device)
    return lambda: torch.addmm(bias, x, weight.t())


def _images(device: torch.device, elements: int) -> torch.Tensor:
    side = max(4, _side(elements, 4, 16))
    return torch.rand(4, 16, side, side, device=device)


def _convolution(device: torch.device, elements: int) -> Run:
    x, weight = _images(device, elements), torch.rand(32, 16, 3, 3, device=device)
    return lambda: functional.conv2d(x, weight, padding=1)


def _deep_convolution(device: torch.device, elements: int) -> Run:
    side = _side(elements, 256)
    x, weight = (
        torch.rand(shape, device=device) for shape in ((1, 256, side, side), (256, 256, 3, 3))
    )
    return lambda: functional.conv2d(x, weight, padding=1)


def _convolution_backward(device: torch.device, elements: int) -> Run:
    gradient, x = _images(device, elements), _images(device, elements)
    weight = torch.rand(16, 16, 3, 3, device=device)
    ones, zeros = [1, 1], [0, 0]
    backward = torch.ops.aten.convolution_backward
    everything = (ones, ones, ones, False, zeros, 1, [True, True, False])
    return lambda: backward(gradient, x, weight, None, *everything)


def _lists(device: torch.device, elements: int) -> list[torch.Tensor]:
    return [torch.rand(max(1, elements // 16), device=device) for _ in range(16)]


def _foreach(device: torch.device, elements: int) -> Run:
    x, y = _lists(device, elements), _lists(device, elements)
    return lambda: torch._foreach_add_(x, y, alpha=1e-6)


def _adam(device: torch.device, elements: int) -> Run:
    state = [_lists(device, elements) for _ in range(4)]
    steps = [torch.ones((), device=device) for _ in range(16)]
    options: dict[str, Any] = {
        "lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8,
        "amsgrad": False, "maximize": False,
    }  # fmt: skip
    return lambda: torch.ops.aten._fused_adamw_(*state, [], steps, **options)


def _transpose(device: torch.device, elements: int) -> Run:
    side = _side(elements)
    x = torch.rand(side, side, device=device).t()
    return x.contiguous


def _indices(device: torch.device, count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), device=device)


def _index_select(device: torch.device, elements: int) -> Run:
    x = torch.rand(-(-elements // 64), 64, device=device)
    index = _indices(device, len(x), len(x))
    return lambda: torch.index_select(x, 0, index)


def _gather(device: torch.device, elements: int) -> Run:
    x = torch.rand(elements, device=device)
    index = _indices(device, elements, elements)
    return lambda: torch.gather(x, 0, index)


def _scatter_add(device: torch.device, elements: int) -> Run:
    x, source = torch.zeros(elements, device=device), torch.rand(elements, device=device)
    index = _indices(device, elements, elements)
    return lambda: x.scatter_add_(0, index, source)


def _index(device: torch.device, elements: int) -> Run:
    x = torch.rand(elements, device=device)
    index = _indices(device, elements, elements)
    return lambda: x[index]


def _index_put(device: torch.device, elements: int) -> Run:
    x, source = torch.zeros(elements, device=device), torch.rand(elements, device=device)
    index = _indices(device, elements, elements)
    return lambda: x.index_put_((index,), source, accumulate=True)


def _embedding(device: torch.device, elements: int) -> Run:
    weight = torch.rand(-(-elements // 64), 64, device=device)
    index = _indices(device, len(weight), len(weight))
    return lambda: functional.embedding(index, weight)


def _embedding_backward(device: torch.device, elements: int) -> Run:
    gradient = torch.rand(-(-elements // 64), 64, device=device)
    index = _indices(device, len(gradient), 1000)
    backward = torch.ops.aten.embedding_dense_backward
    return lambda: backward(gradient, index, 1000, -1, False)


def _cat(device: torch.device, elements: int) -> Run:
    parts = _lists(device, elements)
    return lambda: torch.cat(parts)


def _layer_norm(device: torch.device, elements: int) -> Run:
    x = _rows(device, elements)
    weight, bias = torch.rand(256, device=device), torch.rand(256, device=device)
    return lambda: functional.layer_norm(x, (256,), weight, bias)


def _batch_norm(channels: int) -> Callable[[torch.device, int], Run]:
    def prepare(device: torch.device, elements: int) -> Run:
        side = _side(elements, 8, channels)
        x = torch.rand(8, channels, side, side, device=device)
        weight, bias, mean, variance = (torch.rand(channels, device=device) for _ in range(4))
        return lambda: functional.batch_norm(x, mean, variance, weight, bias, training=True)

    return prepare


def _layer_norm_backward(device: torch.device, elements: int) -> Run:
    x = _rows(device, elements)
    weight, bias = torch.rand(256, device=device), torch.rand(256, device=device)
    forward, backward = torch.ops.aten.native_layer_norm, torch.ops.aten.native_layer_norm_backward
    _, mean, deviation = forward(x, [256], weight, bias, 1e-5)
    return lambda: backward(x, x, [256], mean, deviation, weight, bias, [True, True, True])


def _batch_norm_backward(channels: int) -> Callable[[torch.device, int], Run]:
    def prepare(device: torch.device, elements: int) -> Run:
        side = _side(elements, 8, channels)
        x = torch.rand(8, channels, side, side, device=device)
        weight, *statistics = (torch.rand(channels, device=device) for _ in range(5))
        backward = torch.ops.aten.native_batch_norm_backward
        return lambda: backward(x, x, weight, *statistics, True, 1e-5, [True, True, True])

    return prepare


def _group_norm(device: torch.device, elements: int) -> Run:
    x = _images(device, elements)
    weight, bias = torch.rand(16, device=device), torch.rand(16, device=device)
    return lambda: functional.group_norm(x, 4, weight, bias)


def _softmax_backward(device: torch.device, elements: int) -> Run:
    x = _rows(device, elements).softmax(1)
    return lambda: torch.ops.aten._softmax_backward_data(x, x, 1, torch.float32)


def _max_pool_backward(device: torch.device, elements: int) -> Run:
    x = _images(device, elements)
    y, indices = functional.max_pool2d(x, 2, return_indices=True)
    window, none = [2, 2], [0, 0]
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    return lambda: backward(y, x, window, window, none, [1, 1], False, indices)


def _cross_entropy(device: torch.device, elements: int) -> Run:
    x = _rows(device, elements)
    target = _indices(device, len(x), 256)
    return lambda: functional.nll_loss(x, target)


def _on_images(function: Callable[[torch.Tensor], object]) -> Callable[[torch.device, int], Run]:
    return _on(_images, function)


def _attention(device: torch.device, elements: int) -> Run:
    length = max(16, elements // (4 * 8 * 32))
    q, k, v = (torch.rand(4, 8, length, 32, device=device) for _ in range(3))
    return lambda: functional.scaled_dot_product_attention(q, k, v)


def _attention_backward(device: torch.device, elements: int) -> Run:
    length = max(16, elements // (4 * 8 * 32))
    q, k, v = (torch.rand(4, 8, length, 32, device=device) for _ in range(3))
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    y, logsumexp = attention(q, k, v)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return lambda: backward(y, q, k, v, y, logsumexp, 0.0, False)


def _distances(device: torch.device, elements: int) -> Run:
    side = _side(elements)
    x, y = (torch.rand(side, 16, device=device) for _ in range(2))
    return lambda: torch.cdist(x, y, p=1.0)


def _fourier(device: torch.device, elements: int) -> Run:
    x = torch.rand(-(-elements // 256), 256, dtype=torch.complex64, device=device)
    return lambda: torch.fft.fft(x, dim=1)


def _lstm_cell(device: torch.device, elements: int) -> Run:
    """The gates' part of a step; `elements` counts the gates of all of a batch."""
    batch, hidden = max(1, elements // 512), 128
    gates, more = (torch.rand(batch, 4 * hidden, device=device) for _ in range(2))
    cells = torch.rand(batch, hidden, device=device)
    return lambda: torch.ops.aten._thnn_fused_lstm_cell(gates, more, cells)


def _lstm(device: torch.device, elements: int) -> Run:
    """A layer over 16 steps, and its derivative, which goes the same way."""
    layer = torch.nn.LSTM(128, 128, device=device)
    x = torch.rand(16, max(1, elements // (16 * 128)), 128, device=device)
    return lambda: layer(x)[0].sum().backward()


CALLS: tuple[Call, ...] = (
    Call("aten::add.Tensor", _add),
    Call("aten::add_.Tensor", _in_place),
    Call("aten::exp", _vector(torch.exp)),
    Call("aten::gelu", _vector(functional.gelu)),
    Call("aten::gelu_backward", _vector(lambda x: torch.ops.aten.gelu_backward(x, x))),
    Call("aten::threshold_backward", _vector(lambda x: torch.ops.aten.threshold_backward(x, x, 0))),
    Call("aten::sum", _vector(torch.sum)),
    Call("aten::sum.dim_IntList", _matrix(lambda x: x.sum(1))),
    Call("aten::mean.dim", _matrix(lambda x: x.mean(0))),
    Call("aten::amax", _matrix(lambda x: x.amax(1))),
    Call("aten::mm", _square_product),
    Call("aten::bmm", _batched_product),
    Call("aten::addmm", _linear),
    Call("aten::convolution", _convolution),
    Call("aten::convolution", _deep_convolution),
    Call("aten::convolution_backward", _convolution_backward),
    Call("aten::_foreach_add_.List", _foreach),
    Call("aten::_fused_adamw_", _adam),
    Call(COPY_OVERLOAD, _transpose),
    Call(COPY_OVERLOAD, _vector(lambda x: x.to(torch.bfloat16))),
    Call("aten::cumsum", _matrix(lambda x: x.cumsum(1))),
    Call("aten::sort.stable", _matrix(lambda x: x.sort(1))),
    Call("aten::topk", _matrix(lambda x: x.topk(8, 1))),
    Call("aten::kthvalue", _matrix(lambda x: x.kthvalue(100, 1))),
    Call("aten::index_select", _index_select),
    Call("aten::gather", _gather),
    Call("aten::scatter_add_", _scatter_add),
    Call("aten::index.Tensor", _index),
    Call("aten::_index_put_impl_", _index_put),
    Call("aten::embedding", _embedding),
    Call("aten::embedding_dense_backward", _embedding_backward),
    Call("aten::cat", _cat),
    Call("aten::_softmax", _matrix(lambda x: torch.softmax(x, 1))),
    Call("aten::_log_softmax", _matrix(lambda x: torch.log_softmax(x, 1))),
    Call("aten::_softmax_backward_data", _softmax_backward),
    Call("aten::nll_loss_forward", _cross_entropy),
    Call("aten::native_layer_norm", _layer_norm),
    Call("aten::native_layer_norm_backward", _layer_norm_backward),
    Call("aten::native_batch_norm", _batch_norm(16)),
    Call("aten::native_batch_norm", _batch_norm(256)),
    Call("aten::native_batch_norm_backward", _batch_norm_backward(16)),
    Call("aten::native_batch_norm_backward", _batch_norm_backward(256)),
    Call("aten::native_group_norm", _group_norm),
    Call("aten::max_pool2d_with_indices", _on_images(lambda x: functional.max_pool2d(x, 2))),
    Call("aten::max_pool2d_with_indices_backward", _max_pool_backward),
    Call("aten::avg_pool2d", _on_images(lambda x: functional.avg_pool2d(x, 2))),
    Call(
        "aten::upsample_bilinear2d",
        _on_images(lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear")),
    ),
    Call("aten::_scaled_dot_product_flash_attention_for_cpu", _attention),
    Call("aten::_scaled_dot_product_flash_attention_for_cpu_backward", _attention_backward),
    Call("aten::_thnn_fused_lstm_cell", _lstm_cell),
    Call(LSTM_OVERLOAD, _lstm, part="outboard_layers::lstm_steps"),
    Call("aten::_cdist_forward", _distances),
    Call("aten::_fft_r2c", _matrix(lambda x: torch.fft.rfft(x, dim=1))),
    Call("aten::_fft_c2c", _fourier),
    Call("aten::normal_", _vector(lambda x: x.normal_())),
    Call("aten::bernoulli_.float", _vector(lambda x: x.bernoulli_(0.5))),
)


def families(calls: Iterable[Call] = CALLS) -> dict[str, list[Call]]:
    """All families of the operator tables, sorted, each with its calls; some may have none."""
    from torch_outboard.ops import tables

    by_overload = {**tables.families(), COPY_OVERLOAD: COPY, LSTM_OVERLOAD: LSTM}
    found: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        found[by_overload[call.overload]].append(call)
    return {family: found[family] for family in sorted(set(by_overload.values()))}
