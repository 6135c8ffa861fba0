"""`mode="reduce-overhead"`: compiled graphs that the driver captures and replays.

A graph, or a partition of one, is captured in its second run. The first run compiles kernels
and chooses their configs. The launches of the second run go into a graph of the driver, which this
run and later ones replay. An input with the same address in both runs, or a parameter, is read in
place; other inputs are copied. A result is never overwritten while it is referenced, unless a new
step has begun since: the call captures once more instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.cudagraph_trees import MarkStepBox
from torch._inductor.cudagraph_utils import CUDAGraphPolicy, log_cudagraph_skip_and_bump_counter
from torch._inductor.output_code import CompiledFxGraph

from torch_outboard import _C
from torch_outboard.device.graphs import Graph, graph_pool_handle
from torch_outboard.inductor.device_interface import DeviceGuard
from torch_outboard.inductor.passes import States, noting
from torch_outboard.state import state

_MOST_SIZES = 16  # sets of sizes with captures
_MOST_CAPTURES = 4  # per set: for other addresses of parameters, or while results are in use
_OVERWRITTEN = (
    "a result of a compiled graph was overwritten by a later call, since "
    "torch.compiler.cudagraph_mark_step_begin() has begun a new step; clone what a step has to keep"
)


class _Capture:
    """One graph of the driver and its tensors; created on the stream that replays it."""

    def __init__(self, device: int, states: States) -> None:
        self.graph = Graph()

        def run() -> None:
            states.refill()
            self.graph.replay()

        replay = run if states.buffers else self.graph.replay
        self.tensors = _C.CapturedTensors(device, replay, _OVERWRITTEN)

    def replay(self, inputs: list[Any]) -> list[Any] | None:
        """The results; None, without side effects, if the capture does not fit the inputs."""
        return self.tensors.replay(inputs, MarkStepBox.mark_step_counter)


class _Sizes:
    """Captures of the graph, and facts about its inputs, for one set of sizes."""

    def __init__(self, addresses: dict[int, int]) -> None:
        self.addresses = addresses
        self.moving: set[int] = set()
        self.captures: list[_Capture] = []
        self.states = States()
        self.failed = False


class CapturedGraph:
    """Takes a list of inputs, which it empties, and returns a list, as compiled graphs do.

    Args:
        function: the graph.
        device: index of its device.
        static: indices of inputs that rarely move, such as parameters.
        written: indices of inputs whose content the graph changes.
        inner: indices of inputs from another partition of the graph; it may change them, too.
        reuses: whether the graph may use the memory of inputs for results.
    """

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        device: int,
        static: Iterable[int] = (),
        written: Iterable[int] = (),
        inner: Iterable[int] = (),
        reuses: bool = False,
    ) -> None:
        self._boxed_call = True
        self.function = function
        self.device = device
        self.static = frozenset(static)
        self.written = frozenset(written)
        self.inner = frozenset(inner)
        self.reuses = reuses
        self.sizes: dict[tuple[Any, ...], _Sizes] = {}
        self.lock = threading.RLock()
        self.last: _Capture | None = None  # the last replay; fits most calls
        self.given_up = False

    def __call__(self, inputs: list[Any]) -> Any:
        with self.lock:
            results = None if self.last is None else self.last.replay(inputs)
            return self._call(inputs) if results is None else results

    def _call(self, inputs: list[Any]) -> Any:
        with DeviceGuard(self.device):
            if _C.stream_is_capturing(self.device):  # the caller captures the launches
                return self.function(inputs)
            numbers = tuple(x for x in inputs if not isinstance(x, torch.Tensor))
            key = (torch.accelerator.current_stream(self.device).stream_id, *numbers)
            sizes = self.sizes.get(key)
            if sizes is None:
                return self._run_first(key, inputs)
            results = None if sizes.failed else self._replay(sizes, inputs)
            return self.function(inputs) if results is None else results

    def _run_first(self, key: tuple[Any, ...], inputs: list[Any]) -> Any:
        if self.given_up or not all(isinstance(x, (int, float)) for x in key):
            return self.function(inputs)
        if len(self.sizes) == _MOST_SIZES:
            self.given_up = True
            _tell(
                f"{_MOST_SIZES} graphs for other sizes; mark fewer sizes as dynamic, or pad inputs"
            )
            return self.function(inputs)
        sizes = self.sizes[key] = _Sizes(
            {i: x.data_ptr() for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
        )
        here = torch.device(state.name, self.device)
        other = next((x for x in inputs if isinstance(x, torch.Tensor) and x.device != here), None)
        if other is not None:
            sizes.failed = True
            _tell(f"an input on {other.device}")
            return self.function(inputs)
        with noting(sizes.states):
            return self.function(inputs)

    def _replay(self, sizes: _Sizes, inputs: list[Any]) -> list[Any] | None:
        """The results of a capture, a new one if none fits; None if capturing is not possible."""
        for capture in sizes.captures:
            results = capture.replay(inputs)
            if results is not None:
                self.last = capture
                return results
        # An input that moves is copied from now on, so that no address needs its own capture.
        misplaced = {x for capture in sizes.captures for x in capture.tensors.misplaced(inputs)}
        moved = misplaced - self.static - self.inner
        if len(sizes.captures) == _MOST_CAPTURES:
            moved = misplaced  # parameters that move this often are copied, too
        if not sizes.captures:
            moved |= {
                index for index, address in sizes.addresses.items()
                if index not in self.static | self.inner and inputs[index].data_ptr() != address
            }  # fmt: skip
        if moved - sizes.moving:
            sizes.moving |= moved
            sizes.captures.clear()
            self.last = None
        if len(sizes.captures) == _MOST_CAPTURES:
            return None
        try:
            capture = self._capture(sizes, inputs)
        except Exception as error:
            sizes.failed = True
            _tell(f"{str(error).splitlines()[0] if str(error) else type(error).__name__}")
            return None
        sizes.captures.append(capture)
        counters[state.name]["captured_graphs"] += 1
        self.last = capture
        return capture.replay(inputs)

    def _capture(self, sizes: _Sizes, inputs: list[Any]) -> _Capture:
        states = States()
        states.calls = sizes.states.calls
        states.make_buffers()
        capture = _Capture(self.device, states)
        arguments = list(inputs)
        buffers: dict[int, torch.Tensor] = {}
        for index in sorted(sizes.moving):
            x = inputs[index]
            span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
            memory = torch.empty(span if x.numel() else 0, dtype=x.dtype, device=x.device)
            arguments[index] = buffers[index] = memory.as_strided(x.shape, x.stride())
        given = list(arguments)
        pool = graph_pool_handle()
        with noting(states):
            capture.graph.capture_begin(pool)
            try:
                outputs = self.function(arguments)
            finally:
                capture.graph.capture_end()
        self._describe(capture, inputs, given, buffers, outputs)
        return capture

    def _describe(
        self,
        capture: _Capture,
        inputs: list[Any],
        given: list[Any],
        buffers: dict[int, torch.Tensor],
        outputs: Any,
    ) -> None:
        """Registers the inputs and results of a capture; `given`: the inputs, or their buffers."""
        tensors = capture.tensors
        owners = {
            x.untyped_storage()._cdata: index
            for index, x in enumerate(given)
            if isinstance(x, torch.Tensor)
        }
        # The graph may change inner inputs.
        copied_back = self.written | self.inner
        self._check_copies(inputs, copied_back & buffers.keys())
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                tensors.add_constant(output)
                continue
            index = owners.get(output.untyped_storage()._cdata)
            if index is None:
                tensors.add_result(output)
                continue
            x = given[index]
            if output.dtype != x.dtype:
                raise NotImplementedError(
                    f"a result that is an input of {x.dtype}, taken as {output.dtype}"
                )
            tensors.add_view(index, output, output.storage_offset() - x.storage_offset())
            if self.reuses:
                copied_back |= {index}
        for index, x in enumerate(given):
            if index in buffers:
                tensors.add_moving(index, buffers[index], index in copied_back)
            elif isinstance(x, torch.Tensor):
                tensors.add_fixed(index, x)
            else:
                tensors.add_number(index, x)

    @staticmethod
    def _check_copies(inputs: list[Any], copied_back: frozenset[int]) -> None:
        """Refuses inputs that move and share memory: the last copy back would undo changes."""
        owners = [x.untyped_storage()._cdata for x in inputs if isinstance(x, torch.Tensor)]
        for index in copied_back:
            if owners.count(inputs[index].untyped_storage()._cdata) > 1:
                raise NotImplementedError(f"input {index}, which moves and shares memory")


def _tell(reason: str) -> None:
    log_cudagraph_skip_and_bump_counter(f"skipping cudagraphs due to {reason}")


# PyTorch's reason against a graph on a device other than CUDA.
_NOT_CUDA = "multiple devices"


class CaptureGraphs(CUDAGraphPolicy):
    """Captures graphs of the kit's devices; leaves graphs of other devices to PyTorch."""

    def should_wrap(self, compiled_graph: Any) -> bool:
        return state.name not in getattr(compiled_graph, "device_types", ())

    def wrap_output(self, output_code: Any) -> Any:
        if isinstance(output_code, CompiledFxGraph) and state.name in output_code.device_types:
            reason = _obstacle(output_code)
            if reason:
                _tell(reason)
            else:
                _capture(output_code)
        return output_code


def _obstacle(graph: CompiledFxGraph) -> str:
    """The reason why no partition of a graph can be captured; empty if one can."""
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
        graph.current_callable = make(graph.current_callable, static=static, written=written)
        return
    functions: list[Callable[..., Any]] = []
    for part in graph.partition_maps or ():
        pairs = list(enumerate(part.input_index_mapping))
        functions.append(
            partial(
                make,
                static=[i for i, index in pairs if index in static],
                written=[i for i, index in pairs if index in written],
                inner=[i for i, index in pairs if index is None],
            )
        )
    graph.recursively_apply_fns(functions)
