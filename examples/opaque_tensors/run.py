"""Tensors without storage: packed numbers with sizes and dtype, but without memory for PyTorch.

    python examples/opaque_tensors/run.py

Compiles `packed.cpp`, makes packed tensors on the device, and prints, converts, copies and saves
them. Exits with status 1 if a value is wrong, or if an operator that needs memory does not refuse.
"""

from __future__ import annotations

import copy
import io
import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard

load("packed_example", [Path(__file__).with_name("packed.cpp")], is_python_module=False)
pack, is_packed = torch.ops.packed_example.pack, torch.ops.packed_example.is_packed
device = torch_outboard.device_name()

dense = torch.linspace(-1, 1, 6, device=device).view(2, 3)
packed = pack(dense)
print(packed)
expected = (dense.cpu() * 7).round() / 7
for convert in (torch.Tensor.to_dense, torch.Tensor.cpu, torch.Tensor.double):
    torch.testing.assert_close(convert(packed).cpu().float(), expected)
print(f"on the CPU: {packed.cpu().device}, dense on the device: {packed.to_dense().device}")

file = io.BytesIO()
torch.save(packed, file)
file.seek(0)
loaded = torch.load(file, weights_only=False)
torch.testing.assert_close(loaded.cpu(), expected)
copies = [packed.detach(), torch.nn.Parameter(packed), packed.clone(), copy.deepcopy(packed)]
print(f"loaded: packed {is_packed(loaded)}; copies: packed {all(map(is_packed, copies))}")

refused = 0
for function in (
    lambda: packed + 1,
    lambda: dense @ packed.t(),
    lambda: packed[0],
    lambda: packed.view(-1),
    lambda: dense.copy_(packed),
    lambda: packed.zero_(),
    lambda: torch.cat([dense, packed]),
    lambda: torch.add(dense, 1, out=packed),
):
    try:
        function()
    except NotImplementedError as error:
        refused += 1
        sentence = str(error).splitlines()[0]
print(f"{refused} operators refused: {sentence}")
sys.exit(0 if refused == 8 and all(map(is_packed, copies)) else 1)
