"""One rank of the benchmarks of torch.distributed; benchmarks.distributed starts them.

python -m benchmarks.distributed_ranks RANK RANKS STORE WORK ROUNDS

In one process the device and CPU take turns, round by round, so that a ratio is of adjacent rounds.
Rank 0 prints a line of JSON for each measure: name, seconds of the device and of the reference in
each round, and others by name.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from benchmarks.overlap import hidden_share
from benchmarks.training_steps import Mlp, ResNet18

SIZES = {"4 B": 4, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
# Seconds that one side of a round should last.
ROUND_SECONDS = 0.05

Step = Callable[[], object]


def device() -> torch.device:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    return torch.device(found.type, 0)


def synchronize() -> None:
    torch.accelerator.synchronize()


def seconds(step: Step, repeats: int) -> float:
    """Seconds of one step, on all ranks together."""
    synchronize()
    dist.barrier(group=_cpu)
    begin = time.perf_counter()
    for _ in range(repeats):
        step()
    synchronize()
    return (time.perf_counter() - begin) / repeats


def agreed(number: float) -> float:
    """Rank 0's."""
    box = torch.tensor([number], dtype=torch.float64)
    dist.broadcast(box, 0, group=_cpu)
    return float(box)


def in_turns(name: str, steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step in each round."""
    repeats = {}
    for key, step in steps.items():
        seconds(step, 2)
        repeats[key] = max(1, int(agreed(ROUND_SECONDS / seconds(step, 2))))
    times: dict[str, list[float]] = {key: [] for key in steps}
    for turn in range(rounds):
        for key in list(steps) if turn % 2 else list(reversed(steps)):
            times[key].append(seconds(steps[key], repeats[key]))
    if dist.get_rank() == 0:
        print(json.dumps({"name": name, "times": times}), flush=True)
    return times


def all_reduce(rounds: int) -> None:
    """On the device, on CPU, and by copies to CPU and back one after another."""
    for name, size in SIZES.items():
        on_device = torch.ones(size // 4, device=device())
        on_cpu = torch.ones(size // 4)
        staged = torch.ones(size // 4).pin_memory()

        def by_device(x: torch.Tensor = on_device) -> None:
            dist.all_reduce(x)

        def by_cpu(x: torch.Tensor = on_cpu) -> None:
            dist.all_reduce(x)

        def by_copies(x: torch.Tensor = on_device, host: torch.Tensor = staged) -> None:
            host.copy_(x)
            dist.all_reduce(host)
            x.copy_(host)

        in_turns(name, {"device": by_device, "cpu": by_cpu, "copies": by_copies}, rounds)


def training_step(
    model: Callable[[], nn.Module], shape: tuple[int, ...], where: torch.device | str
) -> Step:
    torch.manual_seed(0)
    net = DistributedDataParallel(model().to(where), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(shape).to(where)
    y = torch.randint(10, shape[:1]).to(where)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (Mlp, (64, 784)),
    "ResNet-18": (ResNet18, (8, 3, 64, 64)),
}


def steps_of(model: str) -> dict[str, Step]:
    make, shape = MODELS[model]
    return {
        "device": training_step(make, shape, device()),
        "cpu": training_step(make, shape, "cpu"),
    }


def ddp(rounds: int) -> None:
    for name in MODELS:
        in_turns(name, steps_of(name), rounds)


def overlap(rounds: int) -> None:
    """The hidden share in steps of ResNet-18, of both sides in turns."""
    steps = steps_of("ResNet-18")
    for _ in range(rounds):
        for side, step in steps.items():
            synchronize()
            dist.barrier(group=_cpu)
            share = hidden_share(step, on_device=side == "device")
            if dist.get_rank() == 0:
                print(json.dumps({"side": side, "hidden": share}), flush=True)


def collectives(elements: int) -> dict[str, Step]:
    """Collectives by name, on float32 tensors; the larger one has this number of elements."""
    ranks = dist.get_world_size()
    part = max(1, elements // ranks)
    whole = torch.ones(part * ranks, device=device())
    result = torch.ones(part * ranks, device=device())
    piece = torch.ones(part, device=device())
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "reduce": lambda: dist.reduce(whole, 0),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, piece),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(piece, whole),
        "all_to_all": lambda: dist.all_to_all_single(result, whole),
        "barrier": lambda: dist.barrier(),
    }


def costs(rounds: int) -> None:
    """Marks in the output around a number of each collective, and the median of their times."""
    ranks = dist.get_world_size()
    for size in (4 * ranks, 1 << 20):
        for name, step in collectives(size // 4).items():
            step()
            dist.barrier(group=_cpu)
            time.sleep(0.1)
            if dist.get_rank() == 0:
                print(json.dumps({"begin": name, "bytes": size}), flush=True)
            time.sleep(0.1)
            times = []
            for _ in range(rounds):
                begin = time.perf_counter()
                step()
                synchronize()
                times.append(time.perf_counter() - begin)
            time.sleep(0.1)
            if dist.get_rank() == 0:
                median = statistics.median(times)
                print(json.dumps({"end": name, "bytes": size, "seconds": median}), flush=True)


WORKS = {"all_reduce": all_reduce, "ddp": ddp, "overlap": overlap, "costs": costs}


def main() -> None:
    global _cpu
    rank, ranks, store, work, rounds = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group(
        f"cpu:gloo,{device().type}:outboard",
        init_method=f"file://{store}",
        rank=int(rank),
        world_size=int(ranks),
    )
    _cpu = dist.new_group(backend="gloo")
    WORKS[work](int(rounds))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
