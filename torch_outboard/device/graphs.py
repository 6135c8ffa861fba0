"""Graphs of captured work under the names of torch.cuda, based on `torch.accelerator.Graph`.

`make_graphed_callables` captures the forward and backward pass of functions and modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, _lazy_init, device_index
from torch_outboard.device.streams import Stream, StreamContext, current_stream
from torch_outboard.state import state

__all__ = [
    "Graph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_Base: Any = getattr(torch.accelerator, "Graph", object)


def is_current_stream_capturing(device: DeviceLike = None) -> bool:
    """Whether this thread's current stream of a device records its work into a graph."""
    if not _C.driver_initialized():
        return False
    return _C.stream_is_capturing(device_index(device))


def graph_pool_handle() -> tuple[int, int]:
    """A memory pool for graphs that share their memory."""
    _lazy_init()
    return _C.create_memory_pool()


class Graph(_Base):  # type: ignore[misc]
    """Work that was captured once and can be replayed, with the interface of torch.cuda.CUDAGraph.

    Raises:
        NotImplementedError: at the capture, if the driver cannot capture graphs, or at once if this
            PyTorch has no graphs for accelerators.
    """

    def __new__(cls, keep_graph: bool = False) -> Graph:
        if _Base is object:
            raise NotImplementedError(
                f"PyTorch {torch.__version__} has no graphs for accelerators; use 2.12 or newer"
            )
        _lazy_init()
        return cast(Graph, super().__new__(cls, keep_graph))

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "default"
    ) -> None:
        """Captures the work submitted to the current stream from now on.

        Args:
            pool: the memory pool of captured work; a pool of its own by default.
            capture_error_mode: "default", "global", "thread_local" or "relaxed": with all of them
                only calls raise that would have to wait for captured work.
        """
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode
        super().capture_begin()


@contextmanager
def graph(
    graph: Graph,
    pool: tuple[int, int] | None = None,
    stream: torch.Stream | None = None,
    capture_error_mode: str = "default",
) -> Iterator[None]:
    """Captures the work of a `with` block into a graph.

    Args:
        graph: the graph to capture into.
        pool: the memory pool of captured work; a pool of its own by default.
        stream: the stream to capture on; one for all such blocks by default.
        capture_error_mode: as for `Graph.capture_begin`.
    """
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    with StreamContext(_stream_of_captures(_C.current_device()) if stream is None else stream):
        graph.capture_begin(pool, capture_error_mode)
        try:
            yield
        finally:
            graph.capture_end()


@cache
def _stream_of_captures(device: int) -> Stream:
    return Stream(device)


class _Captured:
    """Graphs of one callable, and the tensors that they read and write.

    Args:
        function: the captured function.
        arguments: its flattened arguments; later calls copy into them, and the graphs read them.
        structure: the nesting of `arguments`.
        parameters: the parameters of a module, which the graphs read in place.
        allow_unused: whether an input may have no gradient.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[torch.Tensor],
        structure: pytree.TreeSpec,
        parameters: Sequence[torch.Tensor],
        allow_unused: bool,
    ) -> None:
        self.function = function
        self.arguments = tuple(arguments)
        self.inputs = (*arguments, *parameters)
        self.structure = structure
        self.allow_unused = allow_unused
        self.forward_graph, self.backward_graph = Graph(), Graph()
        self.outputs: tuple[torch.Tensor, ...] = ()
        self.output_structure = structure
        self.output_gradients: tuple[torch.Tensor | None, ...] = ()
        self.input_gradients: tuple[torch.Tensor | None, ...] = ()
        self.calls = 0

    def _call(self) -> tuple[torch.Tensor, ...]:
        positional = pytree.tree_unflatten(self.arguments, self.structure)
        outputs, self.output_structure = pytree.tree_flatten(self.function(*positional))
        wrong = next((o for o in outputs if not isinstance(o, torch.Tensor)), None)
        if wrong is not None:
            raise TypeError(
                f"a graph replays tensors, and the callable returns a {type(wrong).__name__}; "
                "return tensors, or tuples, lists and dicts of them"
            )
        _check_devices(outputs)
        return tuple(outputs)

    def _differentiate(self, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
        wanted = [x for x in self.inputs if x.requires_grad]
        given = [
            (o, g) for o, g in zip(outputs, self.output_gradients, strict=True) if g is not None
        ]
        if not wanted or not given:
            return (None,) * len(self.inputs)
        found = iter(
            torch.autograd.grad(
                [o for o, _ in given],
                wanted,
                [g for _, g in given],
                allow_unused=self.allow_unused,
            )
        )
        return tuple(next(found) if x.requires_grad else None for x in self.inputs)

    def _make_gradients(self, outputs: Sequence[torch.Tensor]) -> None:
        self.output_gradients = tuple(
            torch.zeros_like(o) if o.requires_grad else None for o in outputs
        )

    def warm_up(self) -> None:
        """Runs forward and backward once, so that the capture neither compiles nor tunes."""
        outputs = self._call()
        self._make_gradients(outputs)
        self._differentiate(outputs)

    def capture_forward(self, pool: tuple[int, int]) -> None:
        with graph(self.forward_graph, pool=pool):
            self.outputs = self._call()

    def capture_backward(self, pool: tuple[int, int]) -> None:
        self._make_gradients(self.outputs)
        with graph(self.backward_graph, pool=pool):
            self.input_gradients = self._differentiate(self.outputs)
        # Otherwise the outputs would keep the capture's autograd nodes of the parameters alive.
        self.outputs = tuple(output.detach() for output in self.outputs)

    def __call__(self, *arguments: Any) -> Any:
        given, structure = pytree.tree_flatten(arguments)
        if structure != self.structure:
            raise ValueError(
                "a graphed callable takes arguments of the structure that it was captured with, "
                f"{self.structure}, and got {structure}"
            )
        for mine, theirs in zip(self.arguments, given, strict=True):
            if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
                raise ValueError(
                    f"a graph was captured for {mine.dtype} of shape {tuple(mine.shape)}, and got "
                    f"{theirs.dtype} of shape {tuple(theirs.shape)}; capture one for each shape"
                )
        if torch.is_grad_enabled() and any(
            theirs.requires_grad and not mine.requires_grad
            for mine, theirs in zip(self.arguments, given, strict=True)
        ):
            raise ValueError(
                "a graph was captured without the gradient of an argument that requires one; "
                "capture it with `requires_grad` as in later calls"
            )
        replay: Callable[..., Any] = _Replay.apply
        outputs = replay(self, *given, *self.inputs[len(given) :])
        return pytree.tree_unflatten(outputs, self.output_structure)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, captured: _Captured, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        captured.calls += 1
        ctx.captured, ctx.call = captured, captured.calls
        for mine, theirs in zip(captured.arguments, inputs, strict=False):
            if mine.data_ptr() != theirs.data_ptr():
                mine.copy_(theirs)
        captured.forward_graph.replay()
        # Autograd raises for a backward that saved the outputs of the previous call.
        torch.autograd.graph.increment_version(captured.outputs)
        outputs = tuple(output.detach() for output in captured.outputs)
        gradients = captured.output_gradients
        constant = [o for o, g in zip(outputs, gradients, strict=True) if g is None]
        ctx.mark_non_differentiable(*constant)
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        captured = ctx.captured
        if ctx.call != captured.calls:
            raise RuntimeError(
                "a later call of the graphed callable overwrote tensors of this backward pass; "
                "run backward before the next call, or capture one callable for each"
            )
        for mine, theirs in zip(captured.output_gradients, gradients, strict=True):
            if mine is None:
                continue
            if theirs is None:
                mine.zero_()
            elif mine.data_ptr() != theirs.data_ptr():
                mine.copy_(theirs)
        captured.backward_graph.replay()
        # `captured` also owns these tensors, so autograd copies them into `.grad` instead of
        # stealing them; the next replay overwrites them.
        return (None, *captured.input_gradients)


def _check_module(module: torch.nn.Module) -> None:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(part, name) for part in module.modules() for name in hooks):
        raise RuntimeError("hooks are not captured; register them after the module was graphed")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("buffers of a graphed module cannot require gradients")


def _check_devices(tensors: Iterable[torch.Tensor]) -> None:
    here = torch.device(state.name, torch.accelerator.current_device_index())
    for tensor in tensors:
        if tensor.device != here:
            raise ValueError(
                f"a graph replays the work of one device, and a tensor on '{tensor.device}' is "
                f"not on the current device '{here}'; move arguments, parameters, buffers and "
                "results there"
            )


def _graphed(function: Any, captured: _Captured) -> Any:
    """A captured function, or the module with its `forward` replaced."""
    if not isinstance(function, torch.nn.Module):
        return captured
    training, original = function.training, function.forward
    captured.function = original

    def forward(*arguments: Any) -> Any:
        # A graph has the behaviour of dropout and batch norm in the mode of the capture.
        return captured(*arguments) if function.training == training else original(*arguments)

    function.forward = forward
    return function


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Captures callables, with their derivatives, into graphs that calls replay.

    The interface is that of torch.cuda.make_graphed_callables. Outputs are in memory of the graphs,
    and the next call overwrites them; a backward pass that needs them afterwards raises. Gradients
    of parameters accumulate as usual.

    Args:
        callables: a function or module, or a tuple of them in the order in which they will run.
        sample_args: its arguments, a tuple of tensors of the device, or a tuple of such tuples;
            later calls need the same shapes, dtypes and `requires_grad`. The graphs read these
            tensors in place, and calls overwrite them.
        num_warmup_iters: the number of runs of each callable before the capture.
        allow_unused_input: whether an input may have no effect on the outputs.
        pool: the memory pool of captured work; a pool per callable by default. With one pool for
            all, backward passes must run in the reverse order of `callables`.

    Returns:
        Callables for functions; the given modules, with their `forward` replaced for their current
        mode (`training`).

    Raises:
        NotImplementedError: if the driver cannot capture graphs.
        RuntimeError: if a step cannot be captured, such as a kernel that the host runs, under
            autocast with its cache on, or for a module with hooks.
        TypeError: if an argument or an output is no tensor.
        ValueError: if a tensor is not on the current device. A call raises it for arguments
            of another structure, shape, dtype or `requires_grad` than those of the capture.
    """
    if torch.is_autocast_enabled(state.name) and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "autocast would free cached weights that the graph reads; "
            "use torch.autocast(..., cache_enabled=False)"
        )
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise ValueError(
            f"{len(functions)} callables, and arguments for {len(samples)}; give one tuple of "
            "arguments for each"
        )
    parts = []
    for function, arguments in zip(functions, samples, strict=True):
        flat, structure = pytree.tree_flatten(tuple(arguments))
        if not all(isinstance(argument, torch.Tensor) for argument in flat):
            raise TypeError("arguments of graphed callables are tensors, or nests of tensors")
        module = function if isinstance(function, torch.nn.Module) else torch.nn.Module()
        _check_module(module)
        parameters = tuple(module.parameters())
        _check_devices((*flat, *parameters, *module.buffers()))
        parts.append(_Captured(function, flat, structure, parameters, allow_unused_input))

    torch.accelerator.synchronize()
    side = Stream()
    with StreamContext(side):
        for _ in range(num_warmup_iters):
            for part in parts:
                part.warm_up()
    current_stream().wait_stream(side)
    torch.accelerator.synchronize()
    # In a shared pool, memory of one backward pass may overlap memory that another one needs.
    pools = [graph_pool_handle() if pool is None else pool for _ in parts]
    for part, own in zip(parts, pools, strict=True):
        part.capture_forward(own)
    for part, own in zip(reversed(parts), reversed(pools), strict=True):
        part.capture_backward(own)

    graphed = tuple(map(_graphed, functions, parts))
    return graphed[0] if single else graphed
