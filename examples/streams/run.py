"""Devices, streams and events from C++ and from Python, in many threads and on all devices.

    python examples/streams/run.py

Compiles `streams.cpp`. Exits with status 1 if a result is wrong, or if a guard or a `with` block
leaves another device or stream behind.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

load("streams_example", [Path(__file__).with_name("streams.cpp")], is_python_module=False)
example = torch.ops.streams_example
device = torch_outboard.device_name()
module = torch.get_device_module(device)
devices = module.device_count()

THREADS, COUNT = 8, 10_000
sums = example.in_threads(THREADS, COUNT)
print(f"C++: {THREADS} threads, devices: {devices}, results: {sorted(set(sums))}")
milliseconds = example.time_work(COUNT)
print(f"C++: the time between two events is positive: {milliseconds > 0}")


def produce_and_consume(index: int) -> float:
    """The same in Python: one stream makes numbers, another waits for them."""
    with torch.accelerator.device_index(index):
        producer, consumer = torch.Stream(device), torch.Stream(device, priority=-1)
        with producer:
            numbers = torch.ones(COUNT, device=device).add_(1)
            ready = producer.record_event()
        with consumer:
            consumer.wait_event(ready)
            numbers.record_stream(consumer)
            return numbers.mul_(2).sum().item()


before = torch.accelerator.current_device_index(), torch.accelerator.current_stream()
with ThreadPoolExecutor(THREADS) as pool:
    found = list(pool.map(produce_and_consume, [i % devices for i in range(THREADS)]))
found.append(produce_and_consume(devices - 1))
after = torch.accelerator.current_device_index(), torch.accelerator.current_stream()
print(f"Python: {sorted(set(found))}, device and stream as before: {before == after}")

start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
start.record()
torch.ones(COUNT, device=device).add_(1)
end.record()
end.synchronize()
print(f"Python: the time between two events is positive: {start.elapsed_time(end) > 0}")

right = {4.0 * COUNT}
sys.exit(0 if set(sums) == set(found) == right and before == after and milliseconds > 0 else 1)
