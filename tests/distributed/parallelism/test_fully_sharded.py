"""Sharded parameters, FSDP1 and FSDP2, against one process on CPU with the whole batch."""

import pytest

from tests.distributed.ranks import Run

pytestmark = pytest.mark.by_turns(2)

PROGRAM = """
from torch import nn
from torch.distributed.tensor import init_device_mesh
from tests.distributed.parallelism.networks import *
"""


def test_fsdp2(run_ranks: Run) -> None:
    run_ranks("""
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
use_own_device()
begin(backend=f"cpu:gloo,{device.type}:outboard")
mine = part_of(rank, ranks)
reference, losses = alone(steps=4)

def sharded(**options):
    model = network()
    if "offload_policy" not in options: model = model.to(device)
    for layer in model:
        if isinstance(layer, nn.Linear): fully_shard(layer, **options)
    return fully_shard(model, **options)

mesh = init_device_mesh(device.type, (2,))
for options in ({}, {"reshard_after_forward": False}, {"mesh": mesh}):
    model = sharded(**options)
    check_losses(mean_over_ranks(train(model, device, mine, steps=4), device), losses)
    check_parameters(model.parameters(), reference.parameters())
    assert all(p.to_local().numel() < p.numel() for p in model.parameters())

model = sharded(mp_policy=MixedPrecisionPolicy(
    param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32))
check_losses(mean_over_ranks(train(model, device, mine, steps=4), device), losses, 0.1)
assert {p.dtype for p in model.parameters()} == {torch.float32}

for pinned in (True, False):
    model = sharded(offload_policy=CPUOffloadPolicy(pin_memory=pinned))
    check_losses(mean_over_ranks(train(model, device, mine, steps=4), device), losses)
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    check_parameters(model.parameters(), reference.parameters())

# A factor that gradients are divided by, which is multiplied before they are summed.
model = sharded()
for layer in model:
    if isinstance(layer, nn.Linear): layer.set_gradient_divide_factor(2.0 * ranks)
model(torch.ones(2, 8, device=device)).sum().backward()
other = network()
other(torch.ones(2, 8)).sum().backward()
check_parameters([p.grad for p in model.parameters()], [p.grad / 2 for p in other.parameters()])

# Norm of gradients over all shards.
clipped = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
wanted = nn.utils.clip_grad_norm_([p for p in other.parameters()], 0.5)
torch.testing.assert_close(clipped.full_tensor().cpu() * 2, wanted)
""")


@pytest.mark.slow
def test_hybrid(run_ranks: Run) -> None:
    """Shards in pairs of ranks, copies between pairs; with the device named at the beginning."""
    run_ranks(
        """
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
use_own_device()
begin()
mine = part_of(rank, ranks)
reference, losses = alone()
mesh = init_device_mesh(device.type, (2, 2), mesh_dim_names=("replicate", "shard"))
model = network().to(device)
for layer in model:
    if isinstance(layer, nn.Linear): fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
check_losses(mean_over_ranks(train(model, device, mine), device), losses)
check_parameters(model.parameters(), reference.parameters())
local = model[2].weight.to_local().numel()
assert local == 32 * 32 // 2, local

model = FullyShardedDataParallel(
    network().to(device), device_mesh=mesh, use_orig_params=True,
    sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_id=device)
check_losses(mean_over_ranks(train(model, device, mine), device), losses)
""",
        ranks=4,
    )


@pytest.mark.slow
def test_fsdp1(run_ranks: Run) -> None:
    run_ranks("""
from torch.distributed.fsdp import (
    BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy,
    StateDictType)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
use_own_device()
begin(backend=f"cpu:gloo,{device.type}:outboard")
mine = part_of(rank, ranks)
reference, losses = alone()
each = ModuleWrapPolicy({nn.Linear})
for options in (
    {"use_orig_params": True},
    {"use_orig_params": False, "auto_wrap_policy": each, "forward_prefetch": True,
     "backward_prefetch": BackwardPrefetch.BACKWARD_POST},
    {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "auto_wrap_policy": each},
    {"sharding_strategy": ShardingStrategy.NO_SHARD, "use_orig_params": True},
    {"sync_module_states": True, "limit_all_gathers": False},
):
    model = FullyShardedDataParallel(network().to(device), device_id=device, **options)
    check_losses(mean_over_ranks(train(model, device, mine), device), losses)
    with FullyShardedDataParallel.summon_full_params(model):
        found = [p.detach().reshape(-1).cpu() for p in model.parameters()]
        whole = torch.cat([p.detach().reshape(-1) for p in reference.parameters()])
        torch.testing.assert_close(torch.cat(found), whole, rtol=1e-3, atol=1e-5)

model = FullyShardedDataParallel(
    network(), device_id=device, cpu_offload=CPUOffload(offload_params=True), use_orig_params=True)
check_losses(mean_over_ranks(train(model, device, mine), device), losses)

mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
model = FullyShardedDataParallel(network().to(device), device_id=device, mixed_precision=mixed)
check_losses(mean_over_ranks(train(model, device, mine), device), losses, 0.15)

model = FullyShardedDataParallel(network().to(device), device_id=device)
train(model, device, mine)
with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
    state = model.state_dict()
check_parameters(state.values(), reference.state_dict().values())
norm = model.clip_grad_norm_(0.1)
assert norm.device.type == device.type and float(norm) > 0
""")
