"""A vendor's attention with its backward pass, chosen by scaled_dot_product_attention.

    python examples/attention/run.py

Compiles `attention.cpp`, shows which kernel each call takes, and trains a layer. Exits with status
1 if a call takes another kernel, or if values or gradients differ from the CPU's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.cpp_extension import load

import torch_outboard

load("attention_example", [Path(__file__).with_name("attention.cpp")], is_python_module=False)
device = torch_outboard.device_name()
names = {
    "_scaled_dot_product_fused_attention_overrideable": "the vendor's",
    "_scaled_dot_product_flash_attention_for_cpu": "torch_outboard's",
}


class Watch(TorchDispatchMode):
    """Records the attention that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = "PyTorch's, of matrix products"

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen = names.get(function.overloadpacket.__name__, self.seen)
        return function(*args, **(kwargs or {}))


def compare(
    title: str,
    expected: str,
    dtype: torch.dtype = torch.float32,
    backends: tuple[SDPBackend, ...] = tuple(SDPBackend.__members__.values())[1:],
    **options: object,
) -> bool:
    """Attention on the device, by one of some backends, against the CPU's."""
    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 6, 8, dtype=dtype) for _ in range(3)]
    ours = [tensor.to(device).requires_grad_() for tensor in inputs]
    theirs = [tensor.requires_grad_() for tensor in inputs]
    with sdpa_kernel(list(backends)), Watch() as watch:
        result = scaled_dot_product_attention(*ours, **options)
    reference = scaled_dot_product_attention(*theirs, **options)
    if not options.get("dropout_p"):
        result.square().sum().backward()
        reference.square().sum().backward()
        torch.testing.assert_close(result.cpu(), reference, rtol=1e-4, atol=1e-5)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)
    print(f"{title:29} {watch.seen}")
    return watch.seen == expected


vendor, kit, parts = *names.values(), "PyTorch's, of matrix products"
works = [
    compare("plain", vendor),
    compare("causal", vendor, is_causal=True, scale=0.3),
    compare("float64", kit, torch.float64),
    compare("dropout", parts, dropout_p=0.5),
]
for backend, expected in (
    (SDPBackend.OVERRIDEABLE, vendor),
    (SDPBackend.FLASH_ATTENTION, kit),
    (SDPBackend.MATH, parts),
):
    works.append(compare(f"sdpa_kernel({backend.name})", expected, backends=(backend,)))

torch.manual_seed(0)
layer = torch.nn.MultiheadAttention(16, 4, batch_first=True).to(device)
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
x, target = torch.randn(2, 8, 5, 16, device=device)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(layer(x, x, x, need_weights=False)[0], target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss of a layer {losses[0]:.3f} -> {losses[-1]:.3f}")
sys.exit(0 if all(works) and losses[-1] < losses[0] else 1)
