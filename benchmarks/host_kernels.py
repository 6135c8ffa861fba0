"""Speed of kernels compiled for the machine's processors, on the driver `host`.

    python -m benchmarks.run --part host_kernels --name host-kernels

Against CPU eager: products, convolutions, training steps by device kernels alone. Against PoCL: the
median of each family of operators. By themselves: enqueueing, and building the demo's kernels.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks import convolutions, enqueue, families, kernel_builds
from benchmarks.measurement import Measurement, middle
from benchmarks.paired import compare
from torch_outboard.drivers import host

# A product in 512-bit vectors, where the reference does not use them, has a stricter target: see
# docs/compilers.md.
PRODUCT_TARGETS = {"mm 1024 float32": 1.0, "mm 2048 float32": 1.0}
CONVOLUTION_MEDIAN, CONVOLUTION_WORST = 1.1, 1.8
STEP_TARGETS = {
    "MLP": 0.7,
    "small GPT": 0.7,
    "ResNet-18, 8 x 3 x 64 x 64": 0.9,
    "ResNet-18, 8 x 3 x 224 x 224": 0.95,
}
FAMILY_TARGET = 1.0
# Microseconds.
ENQUEUE_LIMIT, WAIT_LIMIT = 4.0, 12.0


def against_cpu(rounds: int) -> Iterator[Measurement]:
    settings = families.settings("host")
    for module, targets in {
        "benchmarks.products": PRODUCT_TARGETS,
        "benchmarks.training_steps": STEP_TARGETS,
    }.items():
        for r in compare(
            targets, device="host", rounds=rounds, module=module, environment=settings
        ):
            name = f"{r.name}, host, device kernels"
            yield Measurement(name, targets[r.name], r.ratio, r.low, r.high)
    results = compare(
        convolutions.WORKS,
        device="host",
        rounds=rounds,
        module="benchmarks.convolutions",
        environment=settings,
    )
    name = "convolutions of ResNet-18, host, device kernels"
    yield middle(f"{name}, median", CONVOLUTION_MEDIAN, results)
    worst = max(results, key=lambda r: r.ratio)
    yield Measurement(f"{name}, worst", CONVOLUTION_WORST, worst.ratio, worst.low, worst.high)


def against_pocl(rounds: int) -> Iterator[Measurement]:
    for family, works in families.FAMILIES.items():
        results = compare(
            works,
            device="host",
            reference="ocl",
            rounds=max(3, rounds // 3),
            module="benchmarks.families",
            environment=families.settings("host"),
            reference_environment=families.settings("ocl"),
        )
        median = statistics.median(r.ratio for r in results)
        yield Measurement(
            f"{family}, host / PoCL, median", FAMILY_TARGET, median, median, median, "x PoCL"
        )


def alone() -> Iterator[Measurement]:
    for words, wait, limit in (("enqueue", False, ENQUEUE_LIMIT), ("complete", True, WAIT_LIMIT)):
        for name, us in enqueue.measure_apart("host", wait).items():
            yield Measurement(f"{words} {name}, host", limit, us, us, us, "us")
    limits = {"cold": kernel_builds.COLD_LIMIT, "warm": kernel_builds.WARM_LIMIT}
    for name, (seconds, _, _) in kernel_builds.measure("host").items():
        title = f"build of the demo's kernels, {name}, host"
        yield Measurement(title, limits[name], seconds, seconds, seconds, "s")


def measurements(rounds: int) -> Iterator[Measurement]:
    """All measurements; none where there is no clang for the driver."""
    if host.describe().startswith("no kernels"):
        return
    yield from against_cpu(rounds)
    yield from against_pocl(rounds)
    yield from alone()
