"""Graphs as Inductor's C++ code for the CPU, on memory that the host shares with the device.

After differentiation, all devices in the graph are replaced by the CPU before Inductor compiles it.
The code is called with CPU tensors over the device's memory; its results become device tensors.

`torch._inductor.aoti_compile_and_package` compiles such graphs, too. The package contains the
device's name, under which PyTorch finds the package's loader
(csrc/cpu_kernels/compiled_code.cpp).

AOTAutograd's cache refers to an entry of Inductor's cache. That entry, under a separate key, holds
the code and the arguments of its HostGraph.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch._inductor import codecache
from torch._inductor.codecache import FxGraphCache
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP
from torch._inductor.lowering import fallbacks, lowerings
from torch._inductor.output_code import CompiledAOTI, CompiledFxGraph, OutputCode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from torch_outboard import _C
from torch_outboard.device.host_memory import as_cpu
from torch_outboard.inductor.device_operators import draws, on_device, runs_on_device
from torch_outboard.inductor.target import placement_of_graphs
from torch_outboard.state import state

log = logging.getLogger(__name__)

CPU = torch.device("cpu")
# Without it, Inductor rewrites operators that draw, and they draw other numbers than eager mode.
SETTINGS: dict[str, Any] = {"fallback_random": True}
# Operators whose arguments are graphs.
_GRAPHS_IN_GRAPHS = frozenset(
    {"cond", "while_loop", "scan", "associative_scan", "map_impl", "invoke_subgraph"}
)


class HostGraph(OutputCode):
    """A graph compiled for the CPU that takes and returns tensors of a device.

    Args:
        compiled: the compiled code, which takes and returns CPU tensors.
        device: index of the device.
        cpu_results: indices of the results that are CPU tensors in the original graph, too.
    """

    def __init__(self, compiled: Any, device: int, cpu_results: Sequence[int]) -> None:
        self._boxed_call = True  # an instance attribute: PyTorch copies those to its wrappers
        self.compiled = compiled
        self.device = device
        self.cpu_results = list(cpu_results)
        written = sorted(getattr(compiled, "mutated_input_idxs", ()))
        self.calls = _C.HostGraphCalls(device, written, self.cpu_results)

    def __call__(self, inputs: Any) -> Any:
        return self.calls(self.compiled, inputs)


class EagerGraph(OutputCode):
    """A graph that runs operator by operator."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self._boxed_call = True
        self.graph = graph

    def __call__(self, inputs: Any) -> Any:
        given = list(inputs)
        inputs.clear()
        return self.graph(*given)


def for_host(compile_for_devices: Callable[..., Any], inner_compile: Any) -> Callable[..., Any]:
    """Wraps Inductor's step that compiles a graph, for devices that share memory with the host.

    Args:
        compile_for_devices: `compile_graph` or `compile_package`.
        inner_compile: the step.
    """

    @functools.wraps(inner_compile)
    def compile_step(
        graph: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **rest: Any
    ) -> Any:
        def compiled(index: int) -> Any:
            """The graph as code for the CPU."""
            moved = [on_cpu(value) for value in inputs]
            return inner_compile(move(graph, index), moved, *arguments, **rest)

        if devices := devices_of(graph, inputs):
            return compile_for_devices(graph, inputs, devices, compiled)
        return inner_compile(graph, inputs, *arguments, **rest)

    return compile_step


def compile_graph(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    devices: set[torch.device],
    compiled: Callable[[int], Any],
) -> OutputCode:
    """Compiles a graph that runs in this process, and caches it."""
    typed = all(value.dtype in DTYPE_TO_CPP for value in tensors_of(graph, inputs))
    if len(devices) > 1 or not typed or not _suits_within(graph, calls=True):
        return EagerGraph(graph)
    index = devices.pop().index or 0
    cpu_results = _results_of_cpu(graph)
    calls, own = names_of_calls(graph), _has_own_tensors(graph)
    result = HostGraph(compiled(index), index, cpu_results)
    if not own:
        _cache(result, calls, inputs)
    return result


def is_ours(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == state.name


def devices_of(graph: Any, inputs: Sequence[Any]) -> set[torch.device]:
    """The kit's devices in a graph."""
    return {value.device for value in tensors_of(graph, inputs) if is_ours(value)}


def tensors_of(graph: Any, inputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    nodes = graph.graph.nodes if hasattr(graph, "graph") else ()
    values = (node.meta.get("val", node.meta.get("example_value")) for node in nodes)
    for value in (*inputs, *values):
        for part in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(part, torch.Tensor):
                yield part


def _suits_within(graph: torch.fx.GraphModule, calls: bool) -> bool:
    """Whether the CPU can run all nodes; if `calls`, code may call operators of the device."""
    return all(_node_suits(graph, node, calls) for node in graph.graph.nodes)


def _node_suits(graph: torch.fx.GraphModule, node: torch.fx.Node, calls: bool) -> bool:
    target = node.target
    if node.op == "get_attr":
        owner, name = _owner_of(graph, str(target))
        constant = getattr(owner, name, None)
        if isinstance(constant, torch.fx.GraphModule):
            return _suits_within(constant, calls)
        return is_ours(constant) or (calls and isinstance(constant, torch.Tensor))
    if node.op != "call_function":
        return True
    if isinstance(target, torch._ops.OpOverload):
        if calls and target.namespace == "outboard_compiled":
            return True
        return is_cpus(target) or (calls and runs_on_device(target))
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in _GRAPHS_IN_GRAPHS
    return _is_python(target)


def _owner_of(graph: torch.fx.GraphModule, target: str) -> tuple[torch.nn.Module, str]:
    """The module that owns a constant, and the constant's name in it."""
    path, _, name = target.rpartition(".")
    return graph.get_submodule(path), name


def is_cpus(operator: torch._ops.OpOverload) -> bool:
    """Whether the CPU's operator gives the device's results, and no extension has a kernel."""
    if draws(operator):
        return False
    keys = torch._C.DispatchKey
    ours = operator.has_kernel_for_dispatch_key(keys.PrivateUse1)
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    if operator.namespace in ("aten", "prims"):
        is_called = operator in fallbacks or operator not in lowerings
        return not (ours and is_called) or has_kernel(operator.name(), "CPU")
    return not ours and has_kernel(operator.name(), "CPU")


def _is_python(target: Any) -> bool:
    """Whether a target is a function of numbers and lists: operator.getitem, math.floor, ..."""
    return getattr(target, "__module__", "") in ("_operator", "math", "builtins") or (
        getattr(target, "__module__", "").startswith("torch.utils._sympy")
    )


def on_cpu(value: Any) -> Any:
    if not is_ours(value):
        return value
    with getattr(value, "fake_mode", None) or nullcontext():
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CPU)


def _results_of_cpu(graph: torch.fx.GraphModule) -> list[int]:
    (output,) = graph.graph.find_nodes(op="output")
    results = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    return [
        index
        for index, result in enumerate(results)
        if isinstance(result, torch.fx.Node)
        and isinstance(value := result.meta.get("val"), torch.Tensor)
        and value.device == CPU
    ]


def move(graph: torch.fx.GraphModule, index: int = 0) -> torch.fx.GraphModule:
    """Changes a graph, in index, into one for the CPU; Inductor computes its shapes again."""
    for node in graph.graph.nodes:
        _move_call(node, index)
        if "val" in node.meta:
            node.meta["val"] = tree_map(on_cpu, node.meta["val"])
        if node.op == "get_attr":
            owner, name = _owner_of(graph, str(node.target))
            constant = getattr(owner, name)
            if isinstance(constant, torch.fx.GraphModule):
                move(constant, index)
            elif is_ours(constant):  # if not, another node of the same constant has moved it
                delattr(owner, name)
                with unset_fake_temporarily():
                    setattr(owner, name, as_cpu(constant))
    graph.recompile()
    return graph


def _move_call(node: torch.fx.Node, index: int) -> None:
    """Replaces device arguments by the CPU, and operators that need it by others."""

    def moved(argument: Any) -> Any:
        if isinstance(argument, torch.device) and argument.type == state.name:
            return CPU
        return argument

    target = node.target
    if target is torch.ops.outboard_compiled.philox_states.default:
        node.target = torch.ops.outboard_compiled.philox_host_states.default
        count, _, run = node.args
        node.args = (count, index, run)
    elif target is torch.ops.prims.device_put.default:
        # device_put between devices copies; from CPU to CPU it would not.
        node.target = torch.ops.aten.clone.default
        node.args, node.kwargs = node.args[:1], {}
    elif isinstance(target, torch._ops.OpOverload) and _is_called(target):
        node.target = on_device(target)
    node.args = tree_map(moved, node.args)
    node.kwargs = tree_map(moved, node.kwargs)


def _is_called(target: Any) -> bool:
    """Whether code for the CPU calls an operator of the device."""
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace != "outboard_compiled"
        and not is_cpus(target)
    )


def names_of_calls(graph: torch.fx.GraphModule) -> list[str]:
    """Operators of the device that code for the CPU calls, for `define_calls`."""
    return sorted({str(node.target) for node in graph.graph.nodes if _is_called(node.target)})


def define_calls(names: Sequence[str]) -> None:
    """Defines the twins that code compiled in another process calls."""
    for name in names:
        namespace, operator, overload = name.split(".")
        on_device(getattr(getattr(getattr(torch.ops, namespace), operator), overload))


class CachedHostGraph(CompiledFxGraph):
    """The cached code of a graph, with the arguments of its HostGraph.

    Attributes:
        device: index of the device.
        cpu_results: indices of the results that are CPU tensors in the original graph, too.
        calls: names of the operators of the device that the code calls.
    """

    def __init__(
        self, compiled: CompiledFxGraph, device: int, cpu_results: list[int], calls: list[str]
    ) -> None:
        self.__dict__.update(vars(compiled))
        self.compiled_fn_runner = None  # its owner deletes parts of it at the end
        self.device = device
        self.cpu_results = cpu_results
        self.calls = calls
        self.code: Any = None
        self.run: Any = None

    def after_deserialization(self, constants: Any) -> str:
        """Loads the code.

        Raises:
            OSError: if graphs have another placement now; Inductor's cache treats it as a miss.
        """
        if placement_of_graphs(self.device) != "host":
            raise OSError("the graph was cached for another OUTBOARD_PLACEMENT")
        define_calls(self.calls)
        self.code = CompiledFxGraph.__new__(CompiledFxGraph)
        self.code.__dict__.update({**vars(self), "code": None})
        return str(self.code.after_deserialization(constants))

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        self.code.compile_region_name = getattr(self, "compile_region_name", None)
        self.code.post_compile(example_inputs, constants, graph_kwargs)
        self.run = HostGraph(self.code, self.device, self.cpu_results)

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)


def _has_own_tensors(graph: torch.fx.GraphModule) -> bool:
    """Whether the graph owns device tensors; cached code would hold copies of them."""
    constants = (value for module in graph.modules() for value in vars(module).values())
    return any(map(is_ours, (*graph.parameters(), *graph.buffers(), *constants)))


def _cache(result: HostGraph, calls: list[str], inputs: Sequence[Any]) -> None:
    code = result.compiled
    if getattr(code, "_fx_graph_cache_key", None) is None:
        return
    # Graphs of a device that differ only in these values have one key for the CPU.
    about = result.device, result.cpu_results, calls
    parts = repr((code._fx_graph_cache_key, about))
    key = f"f{hashlib.sha256(parts.encode()).hexdigest()[:51]}"  # the format of Inductor's keys
    graph = CachedHostGraph(code, result.device, result.cpu_results, calls)
    try:
        with _disable_current_modes():
            FxGraphCache._save_graph(key, graph, inputs, True, None)
    except (AttributeError, TypeError) as problem:  # a PyTorch version with another cache
        log.info("a graph is not cached: %s", problem)
        return
    result._fx_graph_cache_key = key
    result._fx_graph_cache_debug_lines = []
    result.guards_expr = graph.guards_expr


# ---- Packages

# Device index in packages, which run on any device: the generator of the current device draws.
_CURRENT_DEVICE = -1


def compile_package(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    devices: set[torch.device],
    compiled: Callable[[int], Any],
) -> Any:
    """Compiles a graph ahead of time."""
    if len(devices) > 1 or not _suits_package(graph, inputs):
        raise NotImplementedError(
            f"a graph that is compiled ahead of time for '{state.name}' becomes code for the "
            "CPU, and this one mixes devices, draws random numbers by operators of an "
            "extension or within a branch or loop, or has operators that the CPU lacks; use "
            "torch.compile for it"
        )
    return _named(compiled(_CURRENT_DEVICE))


def _suits_package(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether code for the CPU alone gives the device's results, in memory of the device.

    The process that loads a package has only PyTorch's operators and the kit's. The code may call
    functions and operators of the device for random numbers. The graph may have subgraphs, such as
    the branches of `cond`.
    """
    return (
        all(name.startswith("aten.") for name in names_of_calls(graph))
        and not any(x.device.type == "cpu" and x.dim() > 0 for x in tensors_of(graph, inputs))
        and not _results_of_cpu(graph)
        and all(
            _node_suits(graph, node, calls=False) or _can_draw(node.target)
            for node in graph.graph.nodes
        )
    )


def _can_draw(target: Any) -> bool:
    """Whether an operator draws and code for the CPU has a function or a twin for it."""
    return isinstance(target, torch._ops.OpOverload) and (
        target.namespace == "outboard_compiled" or (draws(target) and runs_on_device(target))
    )


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
