"""Tensors that are spread over ranks: DTensor, tensor, sequence and context parallelism."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.slow

PROGRAM = """
from torch import nn
from torch.distributed.tensor import (
    DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, init_device_mesh)
from tests.distributed.parallelism.networks import *
use_own_device()
begin()
def whole(tensor): return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
"""


def test_distributed_tensors(run_ranks: Run) -> None:
    """Operators on every placement, against the same on CPU; and gradients."""
    run_ranks("""
import torch.distributed.tensor as dt
mesh = init_device_mesh(device.type, (ranks,))
torch.manual_seed(0)
x, y, w = torch.randn(6, 4), torch.randn(6, 4), torch.randn(4, 6)
calls = [
    lambda x, y, w: x + y, lambda x, y, w: x * 2 - y, lambda x, y, w: x @ w,
    lambda x, y, w: x.sum(0), lambda x, y, w: x.mean(1), lambda x, y, w: x.amax(),
    lambda x, y, w: x.softmax(-1), lambda x, y, w: x.t().contiguous(),
    lambda x, y, w: x.reshape(2, 3, 4), lambda x, y, w: torch.cat([x, y], 1),
    lambda x, y, w: nn.functional.gelu(x), lambda x, y, w: x.split(2, 1)[1],
    lambda x, y, w: nn.functional.layer_norm(x, (4,)), lambda x, y, w: torch.where(x > 0, x, y),
    lambda x, y, w: (x > 0).any(), lambda x, y, w: x.unsqueeze(1).expand(6, 3, 4),
    lambda x, y, w: nn.functional.linear(x, y).norm(), lambda x, y, w: x.cumsum(1),
]
for placement in (Shard(0), Shard(1), Replicate()):
    for number, call in enumerate(calls):
        ours = [distribute_tensor(t.to(device), mesh, [placement]) for t in (x, y, w)]
        found = whole(call(*ours)).cpu()
        torch.testing.assert_close(found, call(x, y, w), msg=lambda m: f"{number}: {m}")
# Every redistribution.
for before in (Shard(0), Shard(1), Replicate()):
    for after in (Shard(0), Shard(1), Replicate()):
        moved = distribute_tensor(x.to(device), mesh, [before]).redistribute(mesh, [after])
        assert moved.placements == (after,)
        torch.testing.assert_close(moved.full_tensor().cpu(), x)
for reduction in ("sum", "avg", "max"):
    part = DTensor.from_local(x.to(device) * (rank + 1), mesh, [Partial(reduction)])
    factor = {"sum": 3.0, "avg": 1.5}.get(reduction)
    wanted = x * factor if factor else torch.maximum(x, 2 * x)
    torch.testing.assert_close(part.full_tensor().cpu(), wanted)
    mine = part.redistribute(mesh, [Shard(0)]).to_local().cpu()
    torch.testing.assert_close(mine, wanted.chunk(2)[rank])
# Uneven shards.
odd = torch.arange(10.0).reshape(5, 2)
parts = distribute_tensor(odd.to(device), mesh, [Shard(0)])
torch.testing.assert_close(parts.full_tensor().cpu(), odd)
# Gradients.
a = distribute_tensor(x.to(device), mesh, [Shard(0)]).requires_grad_()
b = distribute_tensor(w.to(device), mesh, [Replicate()]).requires_grad_()
(a @ b).square().sum().backward()
p, q = x.clone().requires_grad_(), w.clone().requires_grad_()
(p @ q).square().sum().backward()
check_parameters([a.grad, b.grad], [p.grad, q.grad])
# Factories. Shards are drawn differently, copies alike, and a seed brings the same again.
assert dt.ones(4, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape == (2, 2)
drawn = []
for _ in range(2):
    torch.manual_seed(5)
    drawn.append([
        DTensor.from_local(
            dt.randn(6, 4, device_mesh=mesh, placements=[placement]).to_local(), mesh, [Shard(0)]
        ).full_tensor() for placement in (Shard(0), Replicate())])
check_parameters(drawn[0], [t.cpu() for t in drawn[1]], 0.0)
shards, copies = drawn[0]
assert shards[:3].ne(shards[3:]).all() and copies[:6].eq(copies[6:]).all()
""")


def test_tensor_and_sequence_parallel(run_ranks: Run) -> None:
    run_ranks("""
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
    loss_parallel, parallelize_module)
mesh = init_device_mesh(device.type, (ranks,))
reference, losses = alone()
two = {"0": ColwiseParallel(), "2": RowwiseParallel()}
model = parallelize_module(network().to(device), mesh, two)
# Layers that stay as they are cannot be in one call with DTensors.
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
check_losses(train(model, device, optimizer=optimizer), losses)
check_parameters(model.parameters(), reference.parameters())

class Block(nn.Module):
    # Attention and a layer of two, over (batch, sequence, 16).
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first_norm, self.second_norm = nn.LayerNorm(16), nn.LayerNorm(16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
    def forward(self, x):
        h = self.first_norm(x)
        q, k, v = (f(h).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(h.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.second_norm(x))))

def few(model, location, of=lambda t: t):
    # No Adam: what has next to no gradient would be moved by rounding.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        x = torch.randn(2, 6, 16, generator=generator)
        optimizer.zero_grad()
        loss = of(model(of(x.to(location)))).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(whole(loss.detach())))
    return losses

reference = Block()
wanted = few(reference, "cpu")
plan = {
    "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)),
    "first_norm": SequenceParallel(), "second_norm": SequenceParallel(),
    "q": ColwiseParallel(input_layouts=Shard(1)), "k": ColwiseParallel(input_layouts=Shard(1)),
    "v": ColwiseParallel(input_layouts=Shard(1)),
    "o": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
}
model = Block().to(device)
model = parallelize_module(model, mesh, plan)
found = few(model, device)
check_losses(found, wanted)
check_parameters(model.parameters(), reference.parameters())

# A loss over logits that are spread over ranks.
torch.manual_seed(2)
logits, labels = torch.randn(6, 8), torch.randint(8, (6,))
spread = distribute_tensor(logits.to(device), mesh, [Shard(1)]).requires_grad_()
logits.requires_grad_()
nn.functional.cross_entropy(logits, labels).backward()
with loss_parallel():
    loss = nn.functional.cross_entropy(spread, labels.to(device))
    loss.backward()
check_parameters([spread.grad], [logits.grad])
""")
