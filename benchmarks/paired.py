"""Paired measurements of one piece of work on two devices.

Each side has a separate process, so that thread pools, allocators and caches do not affect the
other side. The processes take turns, round by round (A B, then B A). Each round's two times give a
ratio, and the result is the median of the ratios with a bootstrap interval: other load of the
machine affects both sides of a pair alike. OpenMP's threads wait by default settings, or by
OMP_WAIT_POLICY.

A measured function takes the name of a device and returns a callable that does the work once:

    def add(device: str) -> Callable[[], object]:
        x = torch.ones(1, device=device)
        return lambda: x + x

    results = compare({"add": add}, device="host", rounds=31)
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

Work = Callable[[str], Callable[[], object]]

# Seconds that one side of a round should last; shorter work is repeated until it does.
ROUND_SECONDS = 0.02
# Seconds after which OpenMP's threads of the other side no longer spin.
REST = 0.01
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Ratio:
    """Time of a device over time of the reference, for one piece of work."""

    name: str
    device_seconds: float  # median of one execution
    reference_seconds: float
    ratio: float  # median of the rounds' ratios
    low: float  # 95 % interval of the median
    high: float
    rounds: int
    commit: str = ""  # in files with results of several; "" is unknown

    def __str__(self) -> str:
        return (
            f"{self.name:32} {_duration(self.device_seconds):>10} "
            f"{_duration(self.reference_seconds):>10} {self.ratio:7.3f} "
            f"[{self.low:.3f}, {self.high:.3f}]"
        )


HEADER = f"{'':32} {'device':>10} {'reference':>10} {'ratio':>7}"


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def median_interval(
    values: list[float], resamples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """Median of `values` and its 95 % bootstrap interval: (median, low, high)."""
    generator = random.Random(seed)
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples)
    )
    return (
        statistics.median(values),
        medians[int(0.025 * resamples)],
        medians[int(0.975 * resamples) - 1],
    )


def _synchronizer(device: str) -> Callable[[], None]:
    import torch

    if device == "cpu":
        return lambda: None
    return torch.get_device_module(device).synchronize


def _serve(pipe: Connection, module: str, device: str) -> None:
    """The worker: ("prepare", (name, round_seconds)) gives a repeat count, ("time", n) seconds."""
    works = importlib.import_module(module).WORKS
    synchronize = _synchronizer(device)
    run: Callable[[], object] = time.perf_counter  # replaced by the first "prepare"

    def seconds(repeats: int) -> float:
        time.sleep(REST)
        if repeats > 1:
            run()  # wakes threads
        synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        synchronize()
        return time.perf_counter() - start

    while True:
        command, argument = pipe.recv()
        try:
            if command == "stop":
                return
            if command == "prepare":
                name, wanted = argument
                run = works[name](device)
                seconds(3)
                repeats, taken = 1, seconds(1)
                while taken < wanted:
                    repeats = max(repeats + 1, int(repeats * min(10, wanted / taken * 1.1)))
                    taken = seconds(repeats)
                pipe.send(repeats)
            else:
                pipe.send(seconds(argument))
        except Exception as error:
            pipe.send(error)


class _Worker:
    def __init__(self, module: str, device: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, module, device), daemon=True)
        self._process.start()
        other.close()

    def ask(self, command: str, argument: object) -> float:
        self._pipe.send((command, argument))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self._pipe.send(("stop", None))
        self._process.join(30)


@contextlib.contextmanager
def _environment_of_workers(device: str, settings: Mapping[str, str]) -> Iterator[None]:
    """What a worker has to find in the environment before it imports anything."""
    before = dict(os.environ)
    directory = str(Path(__file__).parent)
    paths = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{directory}{os.pathsep}{paths}" if paths else directory
    # The device has its name from the driver.
    os.environ.setdefault("OUTBOARD_DRIVER", device)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _take_turns(
    workers: list[_Worker], name: str, rounds: int, round_seconds: float
) -> list[list[float]]:
    """Seconds that one execution takes, per worker and round."""
    repeats = [int(worker.ask("prepare", (name, round_seconds))) for worker in workers]
    times: list[list[float]] = [[], []]
    for round_number in range(rounds):
        for side in (0, 1) if round_number % 2 == 0 else (1, 0):
            times[side].append(workers[side].ask("time", repeats[side]) / repeats[side])
    return times


def compare(
    names: Iterable[str],
    *,
    device: str,
    reference: str = "cpu",
    rounds: int = 31,
    module: str = "__main__",
    round_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
    reference_environment: Mapping[str, str] | None = None,
    keep_going: bool = False,
) -> list[Ratio]:
    """Times `WORKS[name]` of `module` on both devices, paired; prints each line as it is known.

    `module` is importable and holds `WORKS: dict[str, Work]`, and `ROUND_SECONDS` if its work needs
    rounds of another length than usual. `environment` is added to that of the processes; where the
    reference is a device of another driver, `reference_environment` is added to its process's in
    place of that. Raises what a piece of work raises; with `keep_going` it prints that instead and
    goes on with the next one.
    """
    if module == "__main__":
        module = Path(sys.argv[0]).stem
    if round_seconds is None:
        round_seconds = getattr(importlib.import_module(module), "ROUND_SECONDS", ROUND_SECONDS)
    workers = []
    for side in (device, reference):
        other = side == reference and reference_environment is not None
        settings = reference_environment if other else environment
        with _environment_of_workers(side if other else device, settings or {}):
            workers.append(_Worker(module, side))
    results = []
    try:
        print(HEADER, flush=True)
        for name in names:
            try:
                times = _take_turns(workers, name, rounds, round_seconds)
            except Exception as error:
                if not keep_going:
                    raise
                print(f"{name:32} {type(error).__name__}: {error}", flush=True)
                continue
            ratio, low, high = median_interval([a / b for a, b in zip(*times, strict=True)])
            result = Ratio(
                name,
                statistics.median(times[0]),
                statistics.median(times[1]),
                ratio,
                low,
                high,
                rounds,
            )
            print(result, flush=True)
            results.append(result)
    finally:
        for worker in workers:
            worker.stop()
    return results


def _commit() -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def environment() -> dict[str, object]:
    """The conditions of a result: versions, hardware, date, commit."""
    import torch

    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "openmp_wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
        "driver": os.environ.get("OUTBOARD_DRIVER", ""),
        "opencl_library": Path(os.environ.get("OUTBOARD_OCL_LIBRARY", "")).name,
        "host_access": os.environ.get("OUTBOARD_HOST_ACCESS", ""),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
    }


def save(name: str, results: Iterable[Ratio], folder: Path = RESULTS) -> Path:
    """Writes results with their environment to `folder/name.json` and returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {"environment": environment(), "results": [asdict(result) for result in results]}
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def save_values(name: str, case: str, values: Mapping[str, float], folder: Path = RESULTS) -> Path:
    """Writes values that are not ratios to `folder/name.json`, each case with its environment."""
    path = folder / f"{name}.json"
    cases = json.loads(path.read_text()) if path.exists() else {}
    cases[case] = {"environment": environment(), **values}
    path.write_text(json.dumps(dict(sorted(cases.items())), indent=2) + "\n")
    return path
