"""Trains the network of examples/digits.py in several processes, by DDP and by FSDP2.

    torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed_digits.py

Without torchrun the script starts torchrun with these options. Each process uses the device of its
LOCAL_RANK, if there are as many. First one process trains alone, then all together with
DistributedDataParallel, then with sharded parameters. In the middle of that a worker is killed:
torchrun restarts all, and they continue from the last distributed checkpoint (with `--max-restarts
0` no worker is killed). The run exits with status 1 if a network recognizes clearly fewer test
digits than the one that trained alone, or if the restart did not happen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from digits import DigitNet, accuracy, digits, new_optimizer, step
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

BATCH = 64
ALLOWED_LOSS = 0.02  # of accuracy; 0.3 % is one digit
TIMED_STEPS = 20

console = Console()
# The older names exist in every PyTorch.
warnings.filterwarnings("ignore", "`torch.distributed.*deprecated", FutureWarning)


@dataclass
class Result:
    """The result of training in one form: alone, by DDP or by FSDP2.

    Args:
        accuracy: on digits that were not seen, 0 to 1.
        step_seconds: the median of a step.
        alone_seconds: the same of a step without any communication, with as large a batch.
        communication_seconds: what a step's communication takes when nothing else goes on.
    """

    accuracy: float
    step_seconds: float
    alone_seconds: float
    communication_seconds: float = 0.0

    def visible(self) -> float:
        """Seconds of a step in communication without overlap."""
        return min(max(self.step_seconds - self.alone_seconds, 0.0), self.communication_seconds)


def network(channels: int, device: torch.device) -> nn.Module:
    """The network with the same weights in all ranks, and statistics of whole batches."""
    torch.manual_seed(0)
    return nn.SyncBatchNorm.convert_sync_batchnorm(DigitNet(channels)).to(device)


def batches(
    data: torch.utils.data.TensorDataset, epoch: int, rank: int, ranks: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """A rank's part of each batch of an epoch; all ranks draw the same order."""
    images, labels = data.tensors
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
    for begin in range(0, len(order) - BATCH + 1, BATCH):
        rows = order[begin : begin + BATCH][rank::ranks]
        yield images[rows], labels[rows]


def learn(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: torch.utils.data.TensorDataset,
    device: torch.device,
    epochs: range,
    part: tuple[int, int],
    after_epoch: Callable[[int], None] = lambda epoch: None,
) -> float:
    """Trains; returns the median of the seconds of the last steps."""
    times = []
    for epoch in epochs:
        for images, labels in batches(data, epoch, *part):
            begin = time.perf_counter()
            step(model, optimizer, images.to(device), labels.to(device)).item()
            times.append(time.perf_counter() - begin)
        after_epoch(epoch)
    return statistics.median(times[-TIMED_STEPS:])


def seconds_of(*communications: Callable[[], object]) -> float:
    """The median seconds of communication, begun by all ranks together."""
    times = []
    for _ in range(5):
        dist.barrier()
        begin = time.perf_counter()
        for communicate in communications:
            communicate()
        torch.accelerator.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def of_statistics(model: nn.Module, device: torch.device) -> Callable[[], object]:
    """Communication of SyncBatchNorm: statistics per layer forward, sums of gradients backward."""
    sizes = [m.num_features for m in model.modules() if isinstance(m, nn.SyncBatchNorm)]
    parts = [torch.zeros(2 * size + 1, device=device) for size in sizes]

    def calls() -> None:
        for part in parts:
            dist.all_gather([torch.empty_like(part) for _ in range(dist.get_world_size())], part)
            dist.all_reduce(part)

    return calls


def of_gradients(model: nn.Module, device: torch.device) -> Callable[[], object]:
    """Communication of DistributedDataParallel in a step, in one bucket."""
    gradients = torch.zeros(sum(p.numel() for p in model.parameters()), device=device)
    return lambda: dist.all_reduce(gradients)


def of_shards(model: nn.Module, device: torch.device) -> Callable[[], object]:
    """Communication of FSDP2: parameters gathered twice, gradients summed and divided once."""
    ranks = dist.get_world_size()
    parts = [
        torch.zeros(-(-sum(p.numel() for p in part.parameters()) // ranks), device=device)
        for part in model.children()
    ]
    wholes = [torch.zeros(part.numel() * ranks, device=device) for part in parts]

    def calls() -> None:
        for part, whole in zip(parts * 2, wholes * 2, strict=True):
            dist.all_gather_into_tensor(whole, part)
        for part, whole in zip(parts, wholes, strict=True):
            dist.reduce_scatter_tensor(part, whole)

    return calls


def sharded(channels: int, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = network(channels, device)
    for part in (model.features, model.classifier):
        fully_shard(part)
    fully_shard(model)
    return model, new_optimizer(model)


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.save(state, checkpoint_id=folder / f"epoch-{epoch}")


def load_last(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Loads the last checkpoint, if there is one; returns the next epoch."""
    # Written at the end: a checkpoint without it is incomplete.
    found = [int(path.parent.name[6:]) for path in folder.glob("epoch-*/.metadata")]
    if not found:
        return 0
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.load(state, checkpoint_id=folder / f"epoch-{max(found)}")
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    return max(found) + 1


def result_table(results: dict[str, Result], device: torch.device, ranks: int) -> Table:
    table = Table(title=f"Handwritten digits on {ranks} processes, device {device.type!r}")
    for column in ("", *results):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("test accuracy", *(f"{r.accuracy:.2%}" for r in results.values()))
    table.add_row("time per step", *(f"{r.step_seconds * 1e3:.1f} ms" for r in results.values()))
    shares, overlaps = [], []
    for result in results.values():
        took = result.communication_seconds
        shares.append(f"{result.visible() / result.step_seconds:.0%}" if took else "")
        overlaps.append(f"{1 - result.visible() / took:.0%}" if took else "")
    table.add_row("of it communication", *shares)
    table.add_row("communication hidden behind the rest", *overlaps)
    return table


def failures(results: dict[str, Result], restarted: bool, restart_wanted: bool) -> list[str]:
    wanted = results["alone"].accuracy - ALLOWED_LOSS
    found = [
        f"{name} recognizes {result.accuracy:.2%}, and {wanted:.2%} are wanted"
        for name, result in results.items()
        if not result.accuracy >= wanted
    ]
    if restart_wanted and not restarted:
        found.append("no worker was killed and started again")
    return found


def store_of(attempt: int) -> dist.Store:
    """The store of the processes of one attempt.

    Torchrun keeps its store when it starts processes again, and on CPU Gloo would find the
    addresses of those that are gone.
    """
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False
    )
    return dist.PrefixStore(f"attempt-{attempt}", store)


def start_by_torchrun() -> None:
    """Becomes torchrun with this script and its options."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", "1"]
    os.execv(sys.executable, [*command, str(Path(__file__).resolve()), *sys.argv[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--channels", type=int, default=16, help="of the first convolution")
    parser.add_argument("--output", type=Path, default=Path("demo-output/distributed"))
    options = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        start_by_torchrun()
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    kills = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0

    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    index = int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count()
    torch.accelerator.set_device_index(index)
    device = torch.device(accelerator.type, index)
    # Checkpoints exchange metadata by the CPU's backend.
    dist.init_process_group(
        f"cpu:gloo,{device.type}:outboard", store=store_of(attempt), rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=120),
    )  # fmt: skip
    rank, ranks = dist.get_rank(), dist.get_world_size()
    checkpoints, finished = options.output / "checkpoints", options.output / "results.json"
    train_set, test_set = digits()
    results: dict[str, Result] = {}

    def note(text: str) -> None:
        if rank == 0:
            console.print(text)

    if attempt == 0:
        if rank == 0:
            shutil.rmtree(options.output, ignore_errors=True)
            checkpoints.mkdir(parents=True)
        dist.barrier()
        torch.manual_seed(0)
        model: nn.Module = DigitNet(options.channels).to(device)
        seconds = learn(
            model, new_optimizer(model), train_set, device, range(options.epochs), (0, 1)
        )
        results["alone"] = Result(accuracy(model, test_set, device), seconds, seconds)
        note(f"alone: {results['alone'].accuracy:.2%}")
        # The reference: a step with a rank's part of the batch and no communication.
        small = learn(model, new_optimizer(model), train_set, device, range(1), (rank, ranks))

        together = DistributedDataParallel(network(options.channels, device))
        seconds = learn(
            together, new_optimizer(together), train_set, device, range(options.epochs),
            (rank, ranks),
        )  # fmt: skip
        took = seconds_of(of_gradients(together, device), of_statistics(together, device))
        results["DDP"] = Result(accuracy(together, test_set, device), seconds, small, took)
        note(f"DDP: {results['DDP'].accuracy:.2%}")
        if rank == 0:
            finished.write_text(json.dumps({n: asdict(r) for n, r in results.items()}))
    else:
        results = {n: Result(**row) for n, row in json.loads(finished.read_text()).items()}

    model, optimizer = sharded(options.channels, device)
    first = load_last(checkpoints, model, optimizer)
    if attempt:
        note(f"started again; goes on from the checkpoint before epoch {first}")

    def after_epoch(epoch: int) -> None:
        save(checkpoints, model, optimizer, epoch)
        if kills and attempt == 0 and epoch == options.epochs // 2:
            dist.barrier()
            note(f"FSDP2: the last worker is killed after epoch {epoch}")
            if rank == ranks - 1:
                os.kill(os.getpid(), signal.SIGKILL)

    seconds = learn(
        model, optimizer, train_set, device, range(first, options.epochs), (rank, ranks),
        after_epoch,
    )  # fmt: skip
    took = seconds_of(of_shards(model, device), of_statistics(model, device))
    small_seconds = results["DDP"].alone_seconds
    results["FSDP2"] = Result(accuracy(model, test_set, device), seconds, small_seconds, took)
    note(f"FSDP2: {results['FSDP2'].accuracy:.2%}")
    problems = failures(results, attempt > 0, kills)
    if rank == 0:
        console.print(result_table(results, device, ranks))
        for problem in problems:
            console.print(f"FAILED: {problem}", style="red")
    dist.destroy_process_group()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
