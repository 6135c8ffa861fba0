"""Prints the calls of a layer and its backward pass, with their dispatch keys and placements.

python examples/dispatch_trace/run.py
"""

import torch

import torch_outboard

device = torch_outboard.device_name()
layer = torch.nn.Linear(4, 2).to(device)
x = torch.randn(3, 4).to(device)

with torch_outboard.trace() as trace, torch_outboard.fallback.policy(copied="allow"):
    layer(x).relu().sum().backward()
print(trace)

products = [call for call in trace.walk() if call.name in ("aten::addmm", "aten::mm")]
placements = {str(call.placement) for call in products}
print(f"\n{len(products)} products of matrices, by {', '.join(placements)}")
assert layer.weight.grad is not None
assert all(call.placement is not None for call in products)
