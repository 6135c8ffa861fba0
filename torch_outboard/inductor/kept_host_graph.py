"""Graphs that run by code for the CPU, in PyTorch's caches.

AOTAutograd's cache names an entry of Inductor's cache: the code with what it takes to call it for a
device, under a key of its own.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.codecache import FxGraphCache
from torch._inductor.output_code import CompiledFxGraph
from torch.utils._python_dispatch import _disable_current_modes

from torch_outboard.inductor import host_code
from torch_outboard.inductor.policy import placement_of_graphs

log = logging.getLogger(__name__)


class KeptHostGraph(CompiledFxGraph):
    """The code of a graph, and what it takes to call it for a device.

    Attributes:
        device: index of the device.
        cpu_results: the results that are CPU tensors in the graph itself, too.
        calls: operators of the device that the code calls.
    """

    def __init__(
        self, compiled: CompiledFxGraph, device: int, cpu_results: list[int], calls: list[str]
    ) -> None:
        self.__dict__.update(vars(compiled))
        self.compiled_fn_runner = None  # whoever has it deletes parts of it in the end
        self.device = device
        self.cpu_results = cpu_results
        self.calls = calls
        self.code: Any = None
        self.run: Any = None

    def after_deserialization(self, constants: Any) -> str:
        """Loads the code.

        Raises:
            OSError: if graphs run elsewhere now, which Inductor's cache takes for a miss.
        """
        if placement_of_graphs(self.device) != "host":
            raise OSError("the graph was cached for another OUTBOARD_PLACEMENT")
        host_code.define_calls(self.calls)
        self.code = CompiledFxGraph.__new__(CompiledFxGraph)
        self.code.__dict__.update({**vars(self), "code": None})
        return str(self.code.after_deserialization(constants))

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        self.code.compile_region_name = getattr(self, "compile_region_name", None)
        self.code.post_compile(example_inputs, constants, graph_kwargs)
        self.run = host_code.HostGraph(self.code, self.device, self.cpu_results)

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)


def compiling_for_host(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """The step of Inductor that compiles a graph, and keeps what code for the host it becomes."""
    compile_step = host_code.compiling_for_host(inner_compile)

    @functools.wraps(compile_step)
    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **rest: Any
    ) -> Any:
        calls, own = host_code.names_of_calls(graph), _has_own_tensors(graph)
        result = compile_step(graph, inputs, *arguments, **rest)
        if isinstance(result, host_code.HostGraph) and not own:
            _keep(result, calls, inputs)
        return result

    return compile_graph


def _has_own_tensors(graph: torch.fx.GraphModule) -> bool:
    """Whether the graph has memory of the device, which code that is kept had a copy of."""
    constants = (value for module in graph.modules() for value in vars(module).values())
    return any(map(host_code.is_ours, (*graph.parameters(), *graph.buffers(), *constants)))


def _keep(result: host_code.HostGraph, calls: list[str], inputs: Sequence[Any]) -> None:
    code = result.compiled
    if getattr(code, "_fx_graph_cache_key", None) is None:
        return
    # Graphs of a device that differ in these alone are one for the CPU.
    about = result.device, result.cpu_results, calls
    parts = repr((code._fx_graph_cache_key, about))
    key = f"f{hashlib.sha256(parts.encode()).hexdigest()[:51]}"  # as Inductor's cache has them
    graph = KeptHostGraph(code, result.device, result.cpu_results, calls)
    try:
        with _disable_current_modes():
            FxGraphCache._save_graph(key, graph, inputs, True, None)
    except (AttributeError, TypeError) as problem:  # of a PyTorch with another cache
        log.info("a graph is not cached: %s", problem)
        return
    result._fx_graph_cache_key = key
    result._fx_graph_cache_debug_lines = []
    result.guards_expr = graph.guards_expr
