"""Runs all benchmarks and writes their results beside the targets.

    python -m benchmarks.run [--rounds 21] [--part import]

Results go to `benchmarks/results/<date>-<processor>.json` and `.md`; a run of some parts replaces
their lines in the file of the day. A ratio is the time on the device over the time of PyTorch on
CPU; a smaller one is better.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace

from benchmarks import build_time, device_kernels, enqueue, host_kernels, import_time, products
from benchmarks.measurement import Measurement, middle, table
from benchmarks.paired import RESULTS, Ratio, compare, environment

DEVICE = "host"


# The upper limit of the interval of a training step, so that a lucky median does not count.
TRAINING_UPPER_END = 1.05


# Pieces of work by module, with the maximum ratio of each.
RATIOS: dict[str, dict[str, float]] = {
    "benchmarks.small_ops": {"x + y": 1.0, "boxed: sgn": 1.5, "boxed: roll": 1.5},
    "benchmarks.pointwise_chain": {
        "chain of 1e7 floats": 0.45,
        "chain of 1e7 floats, CPU with out=": 1.05,
    },
    "benchmarks.training_steps": {
        "CNN of the demo": 1.0,
        "MLP": 1.0,
        "ResNet-18, 8 x 3 x 64 x 64": 1.0,
        "small GPT": 1.0,
        "ResNet-18, 8 x 3 x 224 x 224": 0.95,
    },
    "benchmarks.compiled": {"U-Net": 1.0, "LSTM": 1.0},
}
# Modules of training steps; those of the second one run in eager mode here.
STEPS = ("benchmarks.training_steps", "benchmarks.compiled")
EAGER = {"BENCHMARK_HOW": "eager"}


def _compare(
    names: Iterable[str], device: str, placement: str, rounds: int, module: str
) -> list[Ratio]:
    """Eager work on a device against CPU."""
    settings = {
        "OUTBOARD_DRIVER": device,
        "OUTBOARD_PLACEMENT": placement,
        "OUTBOARD_FALLBACK_COPIED": "allow",
        **EAGER,
    }
    return compare(
        names, device=device, rounds=rounds, module=module, environment=settings,
        reference_environment=EAGER,
    )  # fmt: skip


# The maximum ratio of training steps on `ocl` by device kernels to CPU.
OCL_BY_DEVICE = 2.5
OCL_MODELS = ("MLP", "small GPT", "ResNet-18, 8 x 3 x 64 x 64")


def ratios(rounds: int) -> Iterator[Measurement]:
    for module, targets in RATIOS.items():
        works = importlib.import_module(module).WORKS
        missing = set(targets) - set(works)
        assert not missing, f"{module} does not measure {missing}"
        results = _compare(targets, DEVICE, "auto", rounds, module)
        upper_end = TRAINING_UPPER_END if module in STEPS else None
        for r in results:
            yield Measurement(r.name, targets[r.name], r.ratio, r.low, r.high, upper_end=upper_end)


def ocl(rounds: int) -> Iterator[Measurement]:
    """Training steps on the driver `ocl`, by the default placement and by device kernels."""
    for module in STEPS:
        targets = RATIOS[module]
        for r in _compare(targets, "ocl", "auto", rounds, module):
            name = f"{r.name}, ocl, placement auto"
            yield Measurement(name, 1.0, r.ratio, r.low, r.high, upper_end=TRAINING_UPPER_END)
    for r in _compare(OCL_MODELS, "ocl", "device", rounds, STEPS[0]):
        name = f"{r.name}, ocl, placement device"
        yield Measurement(name, OCL_BY_DEVICE, r.ratio, r.low, r.high)


# Single operators by device kernels: the median of each family, and of products.
KERNEL_TARGET = 1.5
PRODUCT_TARGETS = {"mm 1024 float32": 2.0, "mm 2048 float32": 2.0}
CONVOLUTION_TARGET = 3.0
DEVICE_KERNELS = {
    "OUTBOARD_DRIVER": "ocl",
    "OUTBOARD_PLACEMENT": "device",
    "OUTBOARD_FALLBACK_COPIED": "allow",
}


def kernels(rounds: int) -> Iterator[Measurement]:
    """Single operators on the driver `ocl` by device kernels."""
    for family, works in device_kernels.FAMILIES.items():
        module = "benchmarks.device_kernels"
        results = compare(
            works, device="ocl", rounds=rounds, module=module, environment=DEVICE_KERNELS
        )
        yield middle(f"{family}, device kernels, median", KERNEL_TARGET, results)
    module = "benchmarks.products"
    for r in compare(
        PRODUCT_TARGETS, device="ocl", rounds=rounds, module=module, environment=DEVICE_KERNELS
    ):
        yield Measurement(
            f"{r.name}, device kernels", PRODUCT_TARGETS[r.name], r.ratio, r.low, r.high
        )
    convolutions = [name for name in products.WORKS if name.startswith("conv")]
    for kind, names in {
        "forward": [name for name in convolutions if not name.endswith("step")],
        "with gradients": [name for name in convolutions if name.endswith("step")],
    }.items():
        results = compare(
            names, device="ocl", rounds=rounds, module=module, environment=DEVICE_KERNELS
        )
        name = f"convolutions of ResNet-18 {kind}, device kernels, median"
        yield middle(name, CONVOLUTION_TARGET, results)


def enqueueing(rounds: int) -> Iterator[Measurement]:
    for name, microseconds in enqueue.measure_apart("ocl").items():
        yield Measurement(
            f"enqueue {name}", enqueue.LIMIT, microseconds, microseconds, microseconds, "us"
        )


def allocator(rounds: int) -> Iterator[Measurement]:
    """In a separate process, because it counts driver calls from the first use on."""
    command = [sys.executable, "-m", "benchmarks.allocator", "--json"]
    environment = {**os.environ, "OUTBOARD_DRIVER": DEVICE}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if not answer.stdout:
        raise RuntimeError(f"benchmarks.allocator failed: {answer.stderr[-500:]}")
    content = json.loads(answer.stdout)
    for size, nanoseconds in content["allocate_and_free_ns"].items():
        name = f"allocate and free {int(size):,} cached bytes"
        yield Measurement(name, content["limit_ns"], nanoseconds, nanoseconds, nanoseconds, "ns")


def imports(rounds: int) -> Iterator[Measurement]:
    median, low, high = (1e3 * seconds for seconds in import_time.measure(rounds))
    yield Measurement("added to import torch", import_time.LIMIT * 1e3, median, low, high, "ms")


def build(rounds: int) -> Iterator[Measurement]:
    seconds = build_time.measure(os.cpu_count() or 1)
    yield Measurement("clean build", build_time.LIMIT, seconds, seconds, seconds, "s")


PARTS: dict[str, Callable[[int], Iterator[Measurement]]] = {
    "ratios": ratios,
    "ocl": ocl,
    "kernels": kernels,
    "host_kernels": host_kernels.measurements,
    "enqueue": enqueueing,
    "allocator": allocator,
    "import": imports,
    "build": build,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--name", default="", help="ends names of files, for another OpenCL")
    options = parser.parse_args()
    measurements = []
    for name in options.part or PARTS:
        print(f"==> {name}", flush=True)
        for measurement in PARTS[name](options.rounds):
            measurements.append(measurement)
            print(f"{measurement.name}: {measurement.value:.3g} {measurement.unit}", flush=True)
    settings = environment()
    commit = str(settings.pop("commit"))
    processor = re.sub(r"[^a-z0-9]+", "-", str(settings["processor"]).lower()).strip("-")
    RESULTS.mkdir(parents=True, exist_ok=True)
    words = (str(settings["date"])[:10], processor, options.name)
    path = RESULTS / ("-".join(filter(None, words)) + ".json")
    rows = {m.name: replace(m, commit=commit) for m in measurements}
    if options.part and path.exists():
        earlier = [Measurement(**row) for row in json.loads(path.read_text())["results"]]
        rows = {m.name: m for m in earlier} | rows
    content = {"environment": settings, "results": [asdict(m) for m in rows.values()]}
    path.write_text(json.dumps(content, indent=2) + "\n")
    text = table(list(rows.values()), settings)
    path.with_suffix(".md").write_text(text)
    print(f"\n{text}\nwritten to {path} and .md")
    return int(not all(m.met for m in measurements))


if __name__ == "__main__":
    sys.exit(main())
