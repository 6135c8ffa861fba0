"""Profiles a few training steps: work of the device by operator, and memory by line.

    python examples/profile_training.py
    python examples/profile_training.py --folder profile

Prints the kernels and copies with most of the device's time, and the device's share of the profiled
steps. With a folder, the trace (for https://ui.perfetto.dev) and the history of memory (for
https://pytorch.org/memory_viz) are written there. OUTBOARD_DRIVER names the device.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import torch_outboard

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--folder", type=Path, help="where the trace and the history of memory go")
folder = parser.parse_args().folder

device = torch.device(torch_outboard.device_name(), 0)
memory = torch.get_device_module(device).memory

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images = torch.randn(64, 1, 28, 28).pin_memory()
labels = torch.randint(10, (64,)).pin_memory()


def train_step() -> float:
    x = images.to(device, non_blocking=True)
    y = labels.to(device, non_blocking=True)
    with record_function("forward"):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
    schedule=schedule(wait=1, warmup=1, active=3),
) as profiler:
    for _ in range(5):
        train_step()
        profiler.step()

memory._record_memory_history(stacks="python")
train_step()
memory._record_memory_history(None)

rows = profiler.key_averages()
on_device = torch.autograd.DeviceType.PrivateUse1
work = [row for row in rows if row.device_type == on_device and not row.is_user_annotation]
print(f"{'work of ' + str(device):52} {'times':>6} {'in all, ms':>12}")
for row in sorted(work, key=lambda row: -row.self_device_time_total)[:8]:
    print(f"{row.key:52} {row.count:6} {row.self_device_time_total / 1000:12.3f}")

busy = sum(row.self_device_time_total for row in work)
lasted = sum(row.cpu_time_total for row in rows if row.key == "ProfilerStep*")
print(f"\n{device} worked {busy / 1000:.1f} of the {lasted / 1000:.1f} ms that 3 steps took")

history = memory._snapshot()["device_traces"][device.index]
taken = Counter()
for event in history:
    if event["action"] == "alloc":
        lines = [f["line"] for f in event["frames"] if f["filename"] == __file__]
        taken[f"line {lines[0]}" if lines else "a thread of autograd"] += event["size"]
for place, size in taken.most_common(3):
    print(f"{place} took {size / 2**20:.2f} MiB of memory in a step")

if folder is not None:
    folder.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    memory._dump_snapshot(str(folder / "memory.pickle"))
    print(f"wrote {folder / 'trace.json'} and {folder / 'memory.pickle'}")

# Device kernels have device times; CPU kernels have none.
if torch_outboard.placement.get_placement(device) == "device" and busy == 0:
    sys.exit("the profile has no time of the device")
