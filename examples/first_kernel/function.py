"""A kernel that is a Python function over device tensors."""

import torch

import torch_outboard
from torch_outboard import fallback

fallback.set_policy(copied="allow")
device = torch.device(torch_outboard.device_name())
x = torch.linspace(-2, 2, 5).to(device).requires_grad_()


@torch_outboard.kernel("aten::relu", dtypes=[torch.float32])
def relu(x):
    print("my kernel got", tuple(x.shape), x.dtype, x.device)
    return x.clamp(min=0)


y = torch.relu(x)
y.sum().backward()
print(y.tolist(), x.grad.tolist())
relu.remove()
print(torch.relu(x).tolist())
assert y.tolist() == [0, 0, 0, 1, 2]
assert x.grad.tolist() == [0, 0, 0, 1, 1]
