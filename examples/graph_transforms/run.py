"""Modes and transforms between programs and kernels: fake tensors, torch.func, graphs, hooks.

python examples/graph_transforms/run.py
"""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import torch_outboard

torch_outboard.fallback.set_policy(copied="allow")
device = torch_outboard.device_name()
torch.manual_seed(0)
x = torch.randn(3, 4).to(device)
layer = torch.nn.Linear(4, 2).to(device)

# Shapes and devices without work or memory.
with FakeTensorMode():
    huge = torch.empty(1 << 20, 1 << 20, device=device)
    product = huge @ huge
print(f"fake: {tuple(product.shape)} on {product.device}")

# Functions of functions.
gradients = torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)
torch.testing.assert_close(gradients.cpu(), x.cpu().cos())
print(f"torch.func: gradients of each row on {gradients.device}")

# A graph of operators without in-place writes.
graph = make_fx(torch.func.functionalize(lambda t: t.clone().add_(1).mul_(2)))(x).graph
print("functionalized:", [str(node.target) for node in graph.nodes if node.op == "call_function"])

with FlopCounterMode(display=False) as counter:
    layer(x).sum().backward()
print(f"counted: {counter.get_total_flops()} operations")

# Values for the backward pass wait on the host.
layer.zero_grad()
with torch.autograd.graph.save_on_cpu():
    loss = layer(x).sigmoid().sum()
loss.backward()
saved = layer.weight.grad.clone()
# Here they are computed again.
layer.zero_grad()
checkpoint(lambda t: layer(t).sigmoid(), x, use_reentrant=False).sum().backward()
torch.testing.assert_close(layer.weight.grad, saved)
print("saved on the host, and computed again: the same gradients")

try:
    with torch.autograd.detect_anomaly(check_nan=True):
        (torch.zeros(2, device=device, requires_grad=True).sqrt() * 0).sum().backward()
except RuntimeError as error:
    print(f"anomaly: {error}")
