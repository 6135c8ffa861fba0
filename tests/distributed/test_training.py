"""Models of several ranks, against one process on CPU with the whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.ranks import run_ranks

pytestmark = pytest.mark.separate

PROGRAM = """
from torch import nn
begin()

def network():
    torch.manual_seed(0)
    layers = nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 4)
    return nn.Sequential(*layers)

def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        yield (torch.randn(8, 8, generator=generator), torch.randn(8, 4, generator=generator))

def train(model, place, part):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    for x, y in batches():
        optimizer.zero_grad()
        loss = (model(x[part].to(place)) - y[part].to(place)).square().mean()
        loss.backward()
        optimizer.step()

alone = network()
train(alone, "cpu", slice(None))
mine = slice(rank * 8 // ranks, (rank + 1) * 8 // ranks)
"""


def test_data_parallel(tmp_path: Path) -> None:
    run_ranks(
        PROGRAM
        + """
for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                {"find_unused_parameters": True}, {"bucket_cap_mb": 0.001}):
    model = nn.parallel.DistributedDataParallel(network().to(device), **options)
    train(model, device, mine)
    for ours, theirs in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
model = nn.parallel.DistributedDataParallel(network().to(device))
model.register_comm_hook(None, fp16_compress_hook)
train(model, device, mine)
for ours, theirs in zip(model.parameters(), alone.parameters()):
    torch.testing.assert_close(ours.cpu(), theirs, rtol=0.1, atol=0.05)
dist.destroy_process_group()
""",
        tmp_path,
    )


def test_sharded(tmp_path: Path) -> None:
    run_ranks(
        PROGRAM
        + """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

model = network().to(device)
for layer in model:
    if isinstance(layer, nn.Linear): fully_shard(layer)
fully_shard(model)
train(model, device, mine)
for ours, theirs in zip(model.parameters(), alone.parameters()):
    torch.testing.assert_close(ours.full_tensor().cpu(), theirs, rtol=1e-4, atol=1e-5)

model = FullyShardedDataParallel(network().to(device), device_id=device, use_orig_params=True)
train(model, device, mine)
with FullyShardedDataParallel.summon_full_params(model):
    for ours, theirs in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)

mesh = init_device_mesh(device.type, (ranks,))
whole = torch.arange(24.0).reshape(6, 4)
sharded = distribute_tensor(whole.to(device), mesh, [Shard(0)])
assert sharded.to_local().shape == (3, 4)
torch.testing.assert_close((sharded @ sharded.t()).full_tensor().cpu(), whole @ whole.t())

from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
model = network().to(device)
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
train(model, device, slice(None))
for ours, theirs in zip(model.parameters(), alone.parameters()):
    ours = ours.full_tensor() if isinstance(ours, DTensor) else ours
    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
dist.destroy_process_group()
""",
        tmp_path,
    )
