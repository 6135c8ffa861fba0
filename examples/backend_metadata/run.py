"""A vendor's metadata of tensors, beside the strings that users attach.

    python examples/backend_metadata/run.py

Compiles `metadata.cpp`, marks a tensor as tiled, and shows which operations keep the mark. Exits
with status 1 if saving loses it, or if the strings that a user attached get lost.
"""

from __future__ import annotations

import copy
import io
import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard
from torch_outboard.device import serialization

load("metadata_example", [Path(__file__).with_name("metadata.cpp")], is_python_module=False)
tiling = torch.ops.metadata_example.tiling
set_tiling = torch.ops.metadata_example.set_tiling


def saved_and_loaded(tensor: torch.Tensor, **options: object) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, **options)


device = torch_outboard.device_name()
x = torch.ones(4, 4, device=device)
set_tiling(x, 2)
for name, y in {
    "detach()": x.detach(),
    "Parameter": torch.nn.Parameter(x),
    "x[:]": x[:],
    "view(16)": x.view(16),
    "clone()": x.clone(),
    "deepcopy": copy.deepcopy(x),
    "x + 1": x + 1,
    "cpu()": x.cpu(),
}.items():
    print(f"{name:10} {'keeps the tiling' if tiling(y) == 2 else 'has none'}")

loaded = saved_and_loaded(x)
again = saved_and_loaded(loaded)
on_cpu = saved_and_loaded(x, map_location="cpu")
print(f"saved, loaded and saved again: {tiling(loaded)}, {tiling(again)}; loaded to the CPU:",
      tiling(on_cpu))  # fmt: skip

noted = torch.ones(2, device=device)
serialization.set_tensor_metadata(noted, {"unit": "mm"})
note = serialization.tensor_metadata(saved_and_loaded(noted))
print(f"a user's strings beside it: {note}")

works = tiling(loaded) == tiling(again) == 2 and tiling(on_cpu) == 0 and note == {"unit": "mm"}
sys.exit(0 if works else 1)
