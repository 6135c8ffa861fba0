"""Collectives of random kinds, sizes, dtypes and groups on the device, against Gloo on CPU.

    python -m tests.distributed.random_collectives --count 10000 --seed 0

starts three processes, which draw the same calls and make each twice: on the device, several of
them under way at once, and on CPU. Exit status 1 means that a result differs; the line says which
call, and `--seed` and `--first` bring it again.
"""

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.distributed.ranks import run_ranks

RANKS = 3
# Calls whose results are compared together: so many are under way at once.
TOGETHER = 8

# Dtypes that Gloo reduces on CPU, the reference.
REDUCED = (torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32,
           torch.int64, torch.bfloat16)  # fmt: skip
MOVED = (*REDUCED, torch.bool)
REDUCTIONS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
KINDS = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather",
    "scatter", "reduce_scatter_tensor", "all_to_all_single", "send_recv", "all_reduce_coalesced",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """Arguments of a collective, equal on all ranks.

    Args:
        members: global ranks of the group.
        root: a global rank among them; the sender of "send_recv".
        size: of a tensor, in rows that divide by the group's size where the kind asks for it.
        transposed: whether tensors are not contiguous.
    """

    number: int
    kind: str
    members: tuple[int, ...]
    root: int
    size: tuple[int, int]
    dtype: torch.dtype
    reduction: Any
    transposed: bool


def drawn(seed: int, number: int) -> Call:
    random_numbers = random.Random(seed * 1_000_003 + number)
    kind = random_numbers.choice(KINDS)
    members = random_numbers.choice(((0, 1, 2), (0, 1), (1, 2), (0, 2)))
    reduces = "reduce" in kind
    # Most are small, some large; nothing at all is possible.
    rows = int(2 ** random_numbers.uniform(0, 11)) - 1
    rows = -(-rows // len(members)) * len(members)
    return Call(
        number, kind, members, random_numbers.choice(members),
        (rows, random_numbers.choice((1, 3, 7))),
        random_numbers.choice(REDUCED if reduces else MOVED),
        random_numbers.choice(REDUCTIONS), random_numbers.random() < 0.25 and kind != "gather",
    )  # fmt: skip


def values(call: Call, rank: int, salt: int = 0) -> torch.Tensor:
    """A rank's input, on CPU: small whole numbers, so that the order of sums does not matter."""
    generator = torch.Generator().manual_seed(call.number * 31 + rank * 7 + salt)
    whole = torch.randint(-2, 3, call.size, generator=generator)
    return (whole.abs() if call.dtype == torch.uint8 else whole).to(call.dtype)


def make(call: Call, group: Any, location: torch.device) -> tuple[list[Any], list[torch.Tensor]]:
    """Begins a call on `location`; returns the works to wait for and what holds the results."""
    rank, size = dist.get_rank(), len(call.members)

    def tensor(value: torch.Tensor) -> torch.Tensor:
        moved = value.to(location)
        return moved.t().contiguous().t() if call.transposed and location.type != "cpu" else moved

    mine = tensor(values(call, rank))
    is_root = rank == call.root
    like = [torch.zeros_like(mine) for _ in call.members]
    part = torch.zeros(call.size[0] // size, call.size[1], dtype=call.dtype, device=location)
    options: dict[str, Any] = {"group": group, "async_op": True}
    if call.kind == "all_reduce":
        return [dist.all_reduce(mine, call.reduction, **options)], [mine]
    if call.kind == "broadcast":
        return [dist.broadcast(mine, call.root, **options)], [mine]
    if call.kind == "reduce":
        work = dist.reduce(mine, call.root, call.reduction, **options)
        return [work], [mine] if is_root else []
    if call.kind == "all_gather":
        return [dist.all_gather(like, mine, **options)], like
    if call.kind == "all_gather_into_tensor":
        out = torch.zeros(size * call.size[0], call.size[1], dtype=call.dtype, device=location)
        return [dist.all_gather_into_tensor(out, mine.contiguous(), **options)], [out]
    if call.kind == "gather":
        to = like if is_root else None
        return [dist.gather(mine, to, call.root, **options)], like if is_root else []
    if call.kind == "scatter":
        given = [tensor(values(call, rank, i)) for i in range(size)] if is_root else None
        return [dist.scatter(mine, given, call.root, **options)], [mine]
    if call.kind == "reduce_scatter_tensor":
        work = dist.reduce_scatter_tensor(part, mine.contiguous(), call.reduction, **options)
        return [work], [part]
    if call.kind == "all_to_all_single":
        out = torch.zeros_like(mine, memory_format=torch.contiguous_format)
        return [dist.all_to_all_single(out, mine.contiguous(), **options)], [out]
    if call.kind == "all_reduce_coalesced":
        several = [mine, tensor(values(call, rank, 5))[: call.size[0] // 2].contiguous()]
        operation = dist.AllreduceCoalescedOptions()
        operation.reduceOp = call.reduction
        return [group.allreduce_coalesced(several, operation)], several
    if is_root:
        others = [r for r in call.members if r != rank]
        return [dist.isend(mine, r, group=group, tag=call.number) for r in others], []
    return [dist.irecv(mine, call.root, group=group, tag=call.number)], [mine]


def differences(batch: Sequence[Call], groups: dict[Any, Any], device: torch.device) -> list[str]:
    """Makes some calls on both, and says what differs on this rank."""
    rank = dist.get_rank()
    mine = [call for call in batch if rank in call.members]
    found = [make(call, groups[call.members], device) for call in mine]
    lines = []
    for call, (works, results) in zip(mine, found, strict=True):
        for work in works:
            work.wait()
        expected_works, expected = make(call, groups[call.members], torch.device("cpu"))
        for work in expected_works:
            work.wait()
        for ours, theirs in zip(results, expected, strict=True):
            if not torch.equal(ours.cpu(), theirs):
                lines.append(f"rank {rank}: {call} differs")
    return lines


def run_rank(rank: int, device: torch.device, seed: int, first: int, count: int) -> None:
    """A process's part; raises AssertionError where results differ."""
    # Newer names of the same: what is older than both works on every PyTorch.
    warnings.filterwarnings("ignore", "`torch.distributed.*deprecated", FutureWarning)
    groups: dict[Any, Any] = {
        members: dist.new_group(list(members)) for members in ((0, 1), (1, 2), (0, 2))
    }
    groups[(0, 1, 2)] = dist.group.WORLD
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for begin in range(first, first + count, TOGETHER):
        batch = [drawn(seed, n) for n in range(begin, min(begin + TOGETHER, first + count))]
        wrong += differences(batch, groups, device)
        counts.update(call.kind for call in batch)
    dist.barrier()
    assert not wrong, "\n".join(wrong)
    if rank == 0:
        print(", ".join(f"{kind} {number}" for kind, number in sorted(counts.items())))


def run(seed: int, first: int, count: int, timeout: float) -> list[str]:
    """The output of each rank; raises AssertionError if one found a difference, or failed."""
    program = f"""
        from tests.distributed.random_collectives import run_rank
        torch.set_num_threads(1)
        use_own_device()
        begin(seconds=120, backend=f"cpu:gloo,{{device.type}}:outboard")
        run_rank(rank, device, {seed}, {first}, {count})
    """
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(program, Path(folder), RANKS, timeout)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.distributed.random_collectives", description=__doc__
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for everything")
    options = parser.parse_args(argv)
    try:
        print(*run(options.seed, options.first, options.count, options.timeout))
    except AssertionError as error:
        print(error)
        return 1
    print(f"{options.count} collectives on {RANKS} processes: no differences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
