"""The step of Inductor that compiles a graph whose way its calls choose."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch

from torch_outboard.inductor import host_code
from torch_outboard.inductor.ways import choice
from torch_outboard.inductor.ways.kept_graph import (
    Description,
    KeptGraph,
    keep,
    sizes_of_results,
    strides_of_results,
)
from torch_outboard.inductor.ways.open_sizes import OpenSizes, compiled_for_sizes
from torch_outboard.inductor.ways.remembered import key_of, remembered
from torch_outboard.inductor.ways.source import Compile, Source, unpack


def compiling_by_choice(inner_compile: Compile) -> Compile:
    """The step of Inductor that compiles a graph, for devices whose memory is the host's."""

    @functools.wraps(inner_compile)
    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **rest: Any
    ) -> Any:
        from torch._inductor import config

        device = _device(graph, inputs)
        if device is None:
            return inner_compile(graph, inputs, *arguments, **rest)

        def source() -> Source:
            spare = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
            return Source(spare, inputs, inner_compile, arguments, rest)

        described = describe(graph, inputs)
        key = key_of(described, device)
        chosen = remembered().get(key)
        on_host, plain = source(), _is_plain(graph)
        compiled: dict[str, Any] = {}

        def kernels() -> Any:
            compiled["kernels"] = inner_compile(graph, inputs, *arguments, **rest)
            return compiled["kernels"]

        def host() -> Any:
            moved = on_host.host()
            compiled["host"] = getattr(moved, "compiled", None)
            return moved

        packed = on_host.pack()
        open_sizes = OpenSizes(inputs) if _has_open_sizes(graph, inputs) else None
        makers = {"kernels": kernels, "host": host}
        if open_sizes is not None:
            if packed is None:  # what is compiled later would change what is known of sizes
                return kernels()
            plain = False
            if chosen != "host":
                late = functools.partial(unpack, packed, config.get_config_copy())
                makers["host"] = lambda: compiled_for_sizes(
                    late(), "host", compiled["kernels"], open_sizes
                )
        elif plain:
            makers["eager"] = source().eager
        sizes_before = sizes_of_results(graph)
        calls = host_code.names_of_calls(graph)
        result = choice.choose(key, chosen, device, makers, sizes=open_sizes)
        for way, code in compiled.items():
            layouts = strides_of_results(code, sizes_before, open_sizes is not None)
            if packed is not None and layouts is not None:
                about = Description(device, packed, described, plain, calls, open_sizes)
                keep(result, KeptGraph(code, way, about, layouts), inputs)
        return result

    compile_graph.compiles_by_choice = True
    return compile_graph


def _device(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> int | None:
    """Of a graph that may go any way; None if it finds sizes itself, or where the CPU differs."""
    if any(not isinstance(value, (torch.Tensor, torch.SymInt, int)) for value in inputs):
        return None
    tensors = list(host_code.tensors_of(graph, inputs))
    devices = {value.device for value in tensors if host_code.is_ours(value)}
    if len(devices) != 1 or not host_code.suits(graph, inputs, with_draws=True):
        return None
    if any("unbacked_bindings" in node.meta for node in graph.graph.nodes):
        return None
    return devices.pop().index or 0


def _has_open_sizes(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    tensors = host_code.tensors_of(graph, inputs)
    return any(not isinstance(value, torch.Tensor) for value in inputs) or any(
        not isinstance(size, int) for value in tensors for size in value.size()
    )


def _is_plain(graph: torch.fx.GraphModule) -> bool:
    """Whether all operators are PyTorch's own, which eager mode has."""
    return all(
        node.op != "call_function"
        or (isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten")
        or getattr(node.target, "__module__", "") == "_operator"
        for node in graph.graph.nodes
    )


def describe(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """What a choice holds for, of a graph and what it gets; symbols by their names."""
    return graph.code, [
        (str(x.dtype), _named(x.size()), _named(x.stride()))
        if isinstance(x, torch.Tensor)
        else str(x)
        for x in inputs
    ]


def _named(sizes: Sequence[Any]) -> tuple[int | str, ...]:
    return tuple(size if isinstance(size, int) else str(size) for size in sizes)
