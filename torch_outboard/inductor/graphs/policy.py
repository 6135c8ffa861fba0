"""Which parts of compiled graphs are captured; PyTorch asks it as its policy for CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.cudagraph_utils import CUDAGraphPolicy, log_cudagraph_skip_and_bump_counter
from torch._inductor.output_code import CompiledFxGraph

from torch_outboard import _C
from torch_outboard.inductor.graphs.captured_graph import CapturedGraph
from torch_outboard.state import state

# What PyTorch says of a graph on a device that is not CUDA.
_NOT_CUDA = "multiple devices"


class CaptureGraphs(CUDAGraphPolicy):
    """Captures graphs of the kit's devices by the driver; leaves others alone."""

    def should_wrap(self, compiled_graph: Any) -> bool:
        return state.name not in getattr(compiled_graph, "device_types", ())

    def wrap_output(self, output_code: Any) -> Any:
        if isinstance(output_code, CompiledFxGraph) and state.name in output_code.device_types:
            reason = _obstacle(output_code)
            if reason:
                log_cudagraph_skip_and_bump_counter(f"skipping cudagraphs due to {reason}")
            else:
                _capture(output_code)
        return output_code


def _obstacle(graph: CompiledFxGraph) -> str:
    """Why nothing of a graph can be captured; empty if something can."""
    told = graph.disabled_cudagraphs_reason
    if told and _NOT_CUDA not in told and "cpu device" not in told:
        return told
    if len(graph.device_idxs) != 1 and len(_indices(graph)) != 1:
        return f"{len(graph.device_idxs)} devices in a graph"
    if not getattr(torch.accelerator, "Graph", None):
        return f"PyTorch {torch.__version__}, which has no graphs for accelerators"
    if not _C.captures_graphs():
        return "a driver that cannot capture graphs"
    if not graph.partition_maps and graph.device_types - {state.name, "meta"}:
        return "operators on the CPU in a graph that is not partitioned"
    return ""


def _indices(graph: CompiledFxGraph) -> set[int]:
    return {index for index in graph.device_idxs if index is not None}


def _capture(graph: CompiledFxGraph) -> None:
    arguments = graph.fx_kwargs
    static = set(arguments.get("static_input_idxs") or ())
    written = set(graph.mutated_input_idxs)
    device = next(iter(_indices(graph)))
    make = partial(CapturedGraph, device=device, reuses=bool(arguments.get("is_backward")))
    if not config.graph_partition or graph.recursively_apply_fns is None:
        assert graph.current_callable is not None
        graph.current_callable = make(
            graph.current_callable, static=sorted(static), written=sorted(written)
        )
        return
    functions: list[Callable[..., Any]] = []
    for part in graph.partition_maps or ():
        places = list(enumerate(part.input_index_mapping))
        functions.append(
            partial(
                make,
                static=[i for i, place in places if place in static],
                written=[i for i, place in places if place in written],
                inner=[i for i, place in places if place is None],
            )
        )
    graph.recursively_apply_fns(functions)
