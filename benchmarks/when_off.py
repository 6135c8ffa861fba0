"""The cost of autocast and the profiler for operators when they are off.

python -m benchmarks.when_off [--device host] [--rounds 41] [--pairs 3]

Two processes take turns with the same operators. One has first trained under `torch.autocast`,
taken a profile of the device and recorded the history of memory, and all that is off again; the
other has done none of it. Each pair is a new pair of processes: the location of memory makes some
percent of difference between any two.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import torch

from benchmarks.paired import Work, compare

_USED = "BENCHMARK_TOOLS_WERE_USED"
_state = {"done": False}


def _use_everything(device: str) -> None:
    module = torch.get_device_module(device)
    module.memory._record_memory_history(stacks="python")
    layer = torch.nn.Linear(4, 4).to(device)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    kind = torch.device(device).type
    with torch.profiler.profile(activities=activities), torch.autocast(kind, dtype=torch.bfloat16):
        layer(torch.ones(2, 4, device=device)).float().sum().backward()
        module.synchronize()
    module.memory._record_memory_history(None)


def _work(make: Callable[[str], Callable[[], object]]) -> Work:
    def prepare(device: str) -> Callable[[], object]:
        if os.environ.get(_USED) == "1" and not _state["done"]:
            _state["done"] = True
            _use_everything(device)
        return make(device)

    return prepare


def _add(device: str) -> Callable[[], object]:
    x = torch.ones(1, device=device)
    return lambda: x + x


def _product(device: str) -> Callable[[], object]:
    x = torch.ones(8, 8, device=device)
    return lambda: torch.mm(x, x)


def _allocation(device: str) -> Callable[[], object]:
    return lambda: torch.empty(64, device=device)


def _copy(device: str) -> Callable[[], object]:
    x, there = torch.ones(64), torch.ones(64, device=device)
    return lambda: there.copy_(x)


def _wait(device: str) -> Callable[[], object]:
    return torch.get_device_module(device).synchronize


WORKS: dict[str, Work] = {
    "x + x": _work(_add),
    "mm, which autocast casts": _work(_product),
    "an allocation": _work(_allocation),
    "a copy": _work(_copy),
    "a wait": _work(_wait),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "host"))
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--pairs", type=int, default=3, help="of processes")
    options = parser.parse_args()
    os.environ["OUTBOARD_DRIVER"] = options.device
    print(f"used and off again ('device') against never used ('reference'), on '{options.device}'")
    ratios: dict[str, list[float]] = {name: [] for name in WORKS}
    for _ in range(options.pairs):
        results = compare(
            WORKS,
            device=options.device,
            reference=f"{options.device}:0",  # the same device, by another name
            rounds=options.rounds,
            module="benchmarks.when_off",
            environment={_USED: "1"},
            reference_environment={_USED: "0"},
        )
        for result in results:
            ratios[result.name].append(result.ratio)
    print("ratios of the pairs")
    for name, found in ratios.items():
        print(f"{name:32} {' '.join(f'{ratio:.3f}' for ratio in sorted(found))}", file=sys.stdout)


if __name__ == "__main__":
    main()
