"""`torch._inductor.aoti_compile_and_package`: code for the CPU on memory that the host shares.

The package contains the device's name. Under that name PyTorch finds the package's loader
(csrc/cpu_kernels/compiled_code.cpp).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._inductor import codecache
from torch._inductor.output_code import CompiledAOTI

from torch_outboard import _C
from torch_outboard.inductor import host_code
from torch_outboard.state import state

# Device index in packages, which run on any device: the generator of the current device draws.
_CURRENT_DEVICE = -1


def compiling_packages(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Inductor's step that compiles a graph, for devices that share memory with the host."""

    @functools.wraps(inner_compile)
    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **rest: Any
    ) -> Any:
        tensors = host_code.tensors_of(graph, inputs)
        devices = {value.device for value in tensors if value.device.type == state.name}
        if not devices:
            return inner_compile(graph, inputs, *arguments, **rest)
        if len(devices) > 1 or not _suits(graph, inputs):
            raise NotImplementedError(
                f"a graph that is compiled ahead of time for '{state.name}' becomes code for the "
                "CPU, and this one mixes devices, draws random numbers by operators of an "
                "extension or within a branch or loop, or has operators that the CPU lacks; use "
                "torch.compile for it"
            )
        moved = [host_code.on_cpu(value) for value in inputs]
        graph = host_code.move(graph, _CURRENT_DEVICE)
        return _named(inner_compile(graph, moved, *arguments, **rest))

    compile_graph.compiles_for_host = True
    return compile_graph


def _suits(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether the process that loads a package has all operators that the graph's code calls."""
    calls = host_code.names_of_calls(graph)
    return all(name.startswith("aten.") for name in calls) and host_code.suits(graph, inputs)


def check_memory(devices: set[int]) -> None:
    """Raises NotImplementedError if code for the CPU cannot access the memory of a device."""
    for device in devices:
        if not _C.shares_host_memory(device):
            raise NotImplementedError(
                f"'{state.name}:{device}' cannot be compiled for ahead of time: PyTorch's "
                "AOTInductor writes code for the devices cpu, cuda, xpu and mps alone, and the "
                "host does not share the memory of this one; use torch.compile"
            )


def _named(compiled: Any) -> Any:
    """Writes the device's name into the metadata of a package."""
    files = compiled.filename if isinstance(compiled, CompiledAOTI) else ()
    for file in files if isinstance(files, list) else ():
        if isinstance(file, str) and file.endswith("_metadata.json"):
            path = Path(file)
            metadata = json.loads(path.read_text())
            metadata["AOTI_DEVICE_KEY"] = state.name
            if hasattr(codecache, "get_device_information"):  # the loader compares it
                metadata |= codecache.get_device_information(state.name)
            path.write_text(json.dumps(metadata))
    return compiled
