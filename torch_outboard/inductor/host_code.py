"""Graphs as Inductor's C++ code for the CPU, on memory that the host shares with the device.

The graph that Inductor gets, after derivatives were taken, is told that everything is on the CPU.
Its code is then called with CPU tensors over the device's memory, and results become the device's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._inductor.output_code import OutputCode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_map

from torch_outboard import _C
from torch_outboard.state import state

CPU = torch.device("cpu")
# Inductor rewrites operators that draw so that they give other numbers than eager mode.
SETTINGS: dict[str, Any] = {"fallback_random": True}


class HostGraph(OutputCode):
    """A graph compiled for the CPU that takes and gives tensors of a device."""

    def __init__(self, compiled: Any, device: int) -> None:
        self._boxed_call = True  # of the object: PyTorch copies what an object has to its wrappers
        self.compiled = compiled
        self.device = device
        self.written = sorted(getattr(compiled, "mutated_input_idxs", ()))

    def __call__(self, inputs: Any) -> Any:
        return _C.call_on_host(self.device, self.compiled, inputs, self.written)


class EagerGraph(OutputCode):
    """A graph that runs operator by operator."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self._boxed_call = True
        self.graph = graph

    def __call__(self, inputs: Any) -> Any:
        given = list(inputs)
        inputs.clear()
        return self.graph(*given)


def compiling_for_host(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """The step of Inductor that compiles a graph, for graphs of devices that share memory."""

    @functools.wraps(inner_compile)
    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **rest: Any
    ) -> Any:
        devices = {value.device for value in tensors_of(graph, inputs) if is_ours(value)}
        if not devices:
            return inner_compile(graph, inputs, *arguments, **rest)
        if len(devices) > 1 or not suits(graph, inputs):
            return EagerGraph(graph)
        index = devices.pop().index or 0
        compiled = inner_compile(_move(graph), [_on_cpu(x) for x in inputs], *arguments, **rest)
        return HostGraph(compiled, index)

    compile_graph.compiles_for_host = True
    return compile_graph


def is_ours(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == state.name


def tensors_of(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in (*inputs, *(node.meta.get("val") for node in graph.graph.nodes)):
        for part in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(part, torch.Tensor):
                yield part


def suits(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether the CPU gives what the device gives: no draws, no graphs in the graph, one memory."""
    if any(value.device.type == "cpu" and value.dim() > 0 for value in tensors_of(graph, inputs)):
        return False
    return all(_node_suits(graph, node) for node in graph.graph.nodes)


def _node_suits(graph: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    if node.op == "get_attr":
        return is_ours(getattr(graph, str(node.target), None))
    if node.op == "output":
        results = (result.meta.get("val") for result in node.all_input_nodes)
        return all(is_ours(r) for r in results if isinstance(r, torch.Tensor))
    if node.op != "call_function":
        return True
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded not in node.target.tags and _is_cpus(node.target)
    return _is_python(node.target)


def _is_cpus(operator: torch._ops.OpOverload) -> bool:
    """Whether the CPU has it, and the device no kernel of an extension's own."""
    if operator.namespace in ("aten", "prims"):
        return True
    keys = torch._C.DispatchKey
    return not operator.has_kernel_for_dispatch_key(keys.PrivateUse1) and any(
        operator.has_kernel_for_dispatch_key(key)
        for key in (keys.CPU, keys.CompositeExplicitAutograd, keys.CompositeImplicitAutograd)
    )


def _is_python(target: Any) -> bool:
    """Functions of numbers and lists, such as operator.getitem or math.floor."""
    return getattr(target, "__module__", "") in ("_operator", "math", "builtins") or (
        getattr(target, "__module__", "").startswith("torch.utils._sympy")
    )


def _on_cpu(value: Any) -> Any:
    if not is_ours(value):
        return value
    with getattr(value, "fake_mode", None) or nullcontext():
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CPU)


def _move(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph for the CPU; Inductor works out the shapes of it again."""

    def moved(argument: Any) -> Any:
        if isinstance(argument, torch.device) and argument.type == state.name:
            return CPU
        return argument

    for node in graph.graph.nodes:
        node.args = tree_map(moved, node.args)
        node.kwargs = tree_map(moved, node.kwargs)
        if "val" in node.meta:
            node.meta["val"] = tree_map(_on_cpu, node.meta["val"])
        if node.op == "get_attr":
            with unset_fake_temporarily():
                constant = getattr(graph, node.target)
                storage = _C.alias_as_cpu_storage(constant.untyped_storage())
                alias = torch.empty(0, dtype=constant.dtype).set_(
                    storage, constant.storage_offset(), constant.size(), constant.stride()
                )
            delattr(graph, node.target)
            setattr(graph, node.target, alias)
    graph.recompile()
    return graph
