"""DistributedDataParallel with its options, against one process on CPU with the whole batch.

What only approximates one process, such as compressed gradients, is compared with the same on CPU.
"""

from pathlib import Path

import pytest

from tests.distributed.ranks import Run, torchrun

pytestmark = pytest.mark.by_turns(2)

PROGRAM = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tests.distributed.parallelism.networks import *
begin(backend=f"cpu:gloo,{device.type}:outboard")
mine = part_of(rank, ranks)
"""


def test_options(run_ranks: Run) -> None:
    run_ranks("""
reference, losses = alone(steps=4)
for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                {"find_unused_parameters": True}, {"bucket_cap_mb": 0.001},
                {"broadcast_buffers": False, "init_sync": False},
                {"device_ids": [device.index], "output_device": device.index}):
    model = DistributedDataParallel(network().to(device), **options)
    found = train(model, device, mine, steps=4)
    check_losses(mean_over_ranks(found, device), losses)
    check_parameters(model.parameters(), reference.parameters())
# Ranks begin with the parameters of the first.
torch.manual_seed(rank)
first = nn.Linear(3, 3).to(device)
model = DistributedDataParallel(first)
torch.manual_seed(0)
check_parameters(model.parameters(), nn.Linear(3, 3).parameters())
""")


@pytest.mark.slow
def test_unused_parameters_and_accumulation(run_ranks: Run) -> None:
    run_ranks("""
class Branches(nn.Module):
    # Of three layers each rank uses another one besides the first.
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 4)
        self.others = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    def forward(self, x, which):
        return self.others[which](self.first(x))

def steps(model, location, whiches, rows):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(4):
        optimizer.zero_grad()
        loss = sum(squares(model(x[r].to(location), which), y[r].to(location))
                   for which, r in zip(whiches, rows)) / len(whiches)
        loss.backward()
        optimizer.step()

reference = Branches()
steps(reference, "cpu", [0, 1], [part_of(r, ranks) for r in range(ranks)])
model = DistributedDataParallel(Branches().to(device), find_unused_parameters=True)
steps(model, device, [rank], [mine])
check_parameters(model.parameters(), reference.parameters())
assert model.module.others[2].weight.grad is None

# A second step without telling is refused, with the advice.
model = DistributedDataParallel(Branches().to(device))
x = torch.ones(2, 8, device=device)
def two_steps():
    for _ in range(2): model(x, rank).sum().backward()
refused(RuntimeError, two_steps, "find_unused_parameters=True")

# Gradients of two halves of a part; the first is not communicated.
reference = network()
optimizer = adam(reference.parameters())
model = DistributedDataParallel(network().to(device))
ours = adam(model.parameters())
for x, y in batches(4):
    squares(reference(x), y).backward()
    optimizer.step(), optimizer.zero_grad()
    a, b = x[mine].chunk(2), y[mine].chunk(2)
    with model.no_sync():
        (squares(model(a[0].to(device)), b[0].to(device)) / 2).backward()
    (squares(model(a[1].to(device)), b[1].to(device)) / 2).backward()
    ours.step(), ours.zero_grad()
check_parameters(model.parameters(), reference.parameters())
""")


@pytest.mark.slow
def test_hooks_and_mixed_precision(run_ranks: Run) -> None:
    run_ranks("""
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel.distributed import _MixedPrecision
_, losses = alone()

def hooked(location, register, **options):
    model = DistributedDataParallel(network().to(location), **options)
    register(model)
    return train(model, location, mine), list(model.parameters())

def compressed(model):
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2, warm_start=True)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
# By another name: PyTorch lets the hook of this name on CUDA and XPU only.
def half(state, bucket): return default_hooks.bf16_compress_hook(state, bucket)
hooks = {
    "fp16": lambda m: m.register_comm_hook(None, default_hooks.fp16_compress_hook),
    "bf16": lambda m: m.register_comm_hook(None, half),
    "all_reduce": lambda m: m.register_comm_hook(None, default_hooks.allreduce_hook),
    "PowerSGD": compressed,
    "PowerSGD in fp16": lambda m: m.register_comm_hook(
        powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2),
        default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook)),
}
tolerance = {"all_reduce": 1e-4, "fp16": 1e-2, "bf16": 5e-2, "PowerSGD": 1e-3,
             "PowerSGD in fp16": 2e-2}
for name, register in hooks.items():
    on_device, parameters = hooked(device, register)
    on_cpu, wanted = hooked("cpu", register)
    check_losses(on_device, on_cpu, tolerance[name])
    if name == "all_reduce": check_losses(mean_over_ranks(on_device, device), losses)

mixed = dict(mixed_precision=_MixedPrecision(
    param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16))
seen = []
def looked(model): model.module[2].register_forward_hook(lambda m, i, o: seen.append(o.dtype))
found, parameters = hooked(device, looked, **mixed)
assert set(seen) == {torch.bfloat16}, seen
assert {p.dtype for p in parameters} == {torch.float32}
check_losses(mean_over_ranks(found, device), losses, 0.1)
""")


@pytest.mark.slow
def test_normalization_uneven_inputs_and_sharded_optimizers(run_ranks: Run) -> None:
    run_ranks("""
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer

def normalized():
    torch.manual_seed(0)
    # Without a bias, since its gradient would be rounding alone.
    layers = nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)
    return nn.Sequential(*layers)

reference, losses = alone(model=normalized())
model = nn.SyncBatchNorm.convert_sync_batchnorm(normalized()).to(device)
assert isinstance(model[1], nn.SyncBatchNorm)
model = DistributedDataParallel(model)
check_losses(mean_over_ranks(train(model, device, mine), device), losses)
check_parameters(model.parameters(), reference.parameters(), 1e-3)
check_parameters(model.buffers(), reference.buffers())
check_losses(model.eval()(torch.ones(2, 8, device=device))[0].tolist(),
             reference.eval()(torch.ones(2, 8))[0].tolist(), 1e-3)

# Rank 1 has two batches more.
def uneven(location):
    model = DistributedDataParallel(network().to(location))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for x, y in batches(3 + 2 * rank):
            optimizer.zero_grad()
            squares(model(x[mine].to(location)), y[mine].to(location)).backward()
            optimizer.step()
    return model.parameters()
check_parameters(uneven(device), list(uneven("cpu")))

reference, losses = alone()
model = DistributedDataParallel(network().to(device))
optimizer = ZeroRedundancyOptimizer(
    model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-2)
check_losses(mean_over_ranks(train(model, device, mine, optimizer), device), losses)
check_parameters(model.parameters(), reference.parameters())
# Each rank has the state of its own parameters only, and all of it after consolidation.
held = sum(len(state) > 0 for state in optimizer.optim.state.values())
assert 0 < held < len(list(model.parameters())), held
optimizer.consolidate_state_dict(to=0)
if rank == 0: assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
""")


@pytest.mark.slow
def test_times_of_steps(run_ranks: Run) -> None:
    """Those that PyTorch keeps of each step, with what is hidden behind the backward pass."""
    run_ranks("""
model = DistributedDataParallel(network().to(device), bucket_cap_mb=0.001)
train(model, device, mine)
times = model._get_ddp_logging_data()
assert times["iteration"] == 9, times
for name in ("forward_compute_time", "backward_compute_time", "backward_comm_time"):
    assert times[name] > 0 and times["avg_" + name] > 0, (name, times)
overlap = times["backward_compute_comm_overlap_time"]
assert 0 <= overlap <= min(times["backward_compute_time"], times["backward_comm_time"]), times
""")


@pytest.mark.slow
def test_several_devices_of_each_process(run_ranks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers on two devices, which the ranks use in opposite order; two ranks on each device."""
    for name in ("OUTBOARD_HOST_DEVICES", "OUTBOARD_OCL_COPIES"):
        monkeypatch.setenv(name, "2")
    run_ranks("""
assert torch.accelerator.device_count() == 2
first, second = (torch.device(device.type, i) for i in ((0, 1) if rank == 0 else (1, 0)))

class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        layers = network()
        self.front, self.back = layers[:2].to(first), layers[2:].to(second)
    def forward(self, x):
        return self.back(self.front(x.to(first)).to(second)).to(device)

reference, losses = alone()
model = DistributedDataParallel(Halves())
assert {p.device for p in model.parameters()} == {first, second}
found = train(model, device, mine)
check_losses(mean_over_ranks(found, device), losses)
check_parameters(model.parameters(), reference.parameters())
""")


@pytest.mark.slow
def test_a_device_for_each_process(tmp_path: Path) -> None:
    """LOCAL_RANK picks it: torchrun starts as many processes as there are devices."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from tests.distributed.parallelism.networks import *
local = int(os.environ["LOCAL_RANK"])
torch.accelerator.set_device_index(local)
device = torch.device(torch.accelerator.current_accelerator().type, local)
dist.init_process_group(device_id=device)
rank, ranks = dist.get_rank(), dist.get_world_size()
assert ranks == torch.accelerator.device_count() == 2
reference, losses = alone()
model = nn.parallel.DistributedDataParallel(network().to(device), device_ids=[local])
assert {p.device for p in model.parameters()} == {device}
check_losses(mean_over_ranks(train(model, device, part_of(rank, ranks)), device), losses)
check_parameters(model.parameters(), reference.parameters())
dist.destroy_process_group()
print("rank", rank, "done")
"""
    )
    two = {"OUTBOARD_HOST_DEVICES": "2", "OUTBOARD_OCL_COPIES": "2"}
    result = torchrun("--nproc-per-node", "auto", str(program), **two)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("done") == 2, result.stdout
