"""Graphs whose way their calls choose, in PyTorch's caches.

AOTAutograd's cache names what Inductor's cache keeps of a graph. What is kept here is the code of one
way and the graph itself, of which other ways are compiled when they are wanted. The choice is no part
of it: whoever loads the graph looks up what is chosen then, on that machine.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._inductor.codecache import FxGraphCache
from torch._inductor.output_code import CompiledFxGraph
from torch.utils._python_dispatch import _disable_current_modes

from torch_outboard.inductor import host_code

Compile = Callable[..., Any]
# The way of which code is kept, and those that it is the code of.
_SERVED = {"kernels": ("kernels", "device"), "host": ("host",)}

log = logging.getLogger(__name__)


class Source:
    """What the ways of a graph are compiled from.

    Attributes:
        graph: a copy, which a way may change.
        step: Inductor's, which compiles a graph.
        rest: its further arguments.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        step: Compile,
        arguments: Sequence[Any],
        rest: dict[str, Any],
    ) -> None:
        from torch._inductor import config

        self.graph = graph
        self.inputs = inputs
        self.step = step
        self.arguments = arguments
        self.rest = rest
        self.context = TracingContext.try_get()
        self.settings = config.get_config_copy()

    def kernels(self) -> Any:
        return self._compile(self.step)

    def host(self) -> Any:
        return self._compile(host_code.compiling_for_host(self.step))

    def eager(self) -> Any:
        return host_code.EagerGraph(self.graph)

    def _compile(self, step: Compile) -> Any:
        """By the settings and the trace of when the graph was new, which may be gone."""
        from torch._inductor import config

        changed = {
            name: value
            for name, value in self.settings.items()
            if name in config._config and getattr(config, name) != value
        }
        trace = tracing(self.context) if self.context is not None else nullcontext()
        with trace, config.patch(changed):
            return step(self.graph, self.inputs, *self.arguments, **self.rest)

    def pack(self) -> bytes | None:
        """For another process; None where that is not possible."""
        from torch._inductor import compile_fx, config

        # Steps that others brought are not known there.
        if self.arguments or self.step is not compile_fx.compile_fx_inner:
            return None
        if config.force_disable_caches or not config.fx_graph_cache:
            return None
        try:
            from torch.fx._graph_pickler import GraphPickler, Options

            graph = copy.deepcopy(self.graph.graph)
            for node in graph.nodes:  # else: where it comes from, which need not be picklable
                node.meta = {key: value for key, value in node.meta.items() if key == "val"}
            module = torch.fx.GraphModule(self.graph, graph)
            with _disable_current_modes():  # constants are tensors that have values
                packed = GraphPickler.dumps((module, list(self.inputs)), Options(ops_filter=None))
            return pickle.dumps((packed, self.rest))
        except Exception as problem:
            log.info("a graph is not kept: %s", problem)
            return None


def unpack(packed: bytes, settings: dict[str, Any]) -> Source:
    """What `Source.pack` packed, to be compiled by settings of Inductor."""
    from torch._inductor import compile_fx
    from torch._subclasses import FakeTensorMode
    from torch.fx._graph_pickler import GraphPickler
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    packed, rest = pickle.loads(packed)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with _disable_current_modes():
        graph, inputs = GraphPickler.loads(packed, mode)
    graph.recompile()
    source = Source(graph, inputs, compile_fx.compile_fx_inner, (), rest)
    source.context, source.settings = TracingContext(mode), settings
    return source


class KeptGraph(CompiledFxGraph):
    """The code of one way of a graph, and what it takes to go another way.

    Attributes:
        way: "kernels" or "host".
        device: index of the device.
        packed: a `Source`.
        described: what `choice.key_of` needs to know of the graph.
        plain: whether it can run operator by operator.
        layouts: strides of the results, on which the code of the gradients relies.
    """

    def __init__(
        self,
        compiled: CompiledFxGraph,
        way: str,
        device: int,
        packed: bytes,
        described: Any,
        plain: bool,
        layouts: Sequence[Any],
    ) -> None:
        self.__dict__.update(vars(compiled))
        self.compiled_fn_runner = None  # whoever has it deletes parts of it in the end
        self.way = way
        self.device = device
        self.packed = packed
        self.described = described
        self.plain = plain
        self.layouts = layouts
        self.chosen: str | None = None
        self.code: Any = None
        self.run: Any = None

    def after_deserialization(self, constants: Any) -> str:
        """Asks for the choice, and loads the code unless another way was chosen.

        Raises:
            OSError: if no way is to be chosen, which Inductor's cache takes for a miss.
        """
        from torch_outboard.inductor import choice
        from torch_outboard.inductor.policy import way_of_graphs

        if way_of_graphs(self.device) != "measured":
            raise OSError("the graph was kept for another OUTBOARD_WAY")
        chosen = choice.remembered().get(choice.key_of(self.described, self.device))
        self.chosen = chosen if chosen in self._ways() else None
        # Code for the host may call operators that are defined when it is compiled, by its cache.
        if self.way == "host" or self.chosen not in (None, *_SERVED[self.way]):
            return ""
        self.code = CompiledFxGraph.__new__(CompiledFxGraph)
        self.code.__dict__.update({**vars(self), "code": None})
        return self.code.after_deserialization(constants)

    def _ways(self) -> tuple[str, ...]:
        return ("kernels", "device", "host", *(("eager",) if self.plain else ()))

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        from torch._inductor import config

        from torch_outboard.inductor import choice

        # The settings may be others when a way is compiled.
        unpacked = functools.partial(unpack, self.packed, config.get_config_copy())
        makers: dict[str, Callable[[], Any]] = {
            "kernels": lambda: unpacked().kernels(),
            "host": lambda: unpacked().host(),
        }
        if self.plain:
            makers["eager"] = lambda: unpacked().eager()
        code, self.packed = self.code, b""
        if code is not None:
            code.compile_region_name = getattr(self, "compile_region_name", None)
            code.post_compile(example_inputs, constants, graph_kwargs)
            makers["kernels"] = lambda: code
        # The code that the layouts are of needs no other ones.
        own = (self.chosen or "kernels") in _SERVED[self.way]
        key = choice.key_of(self.described, self.device)
        layouts = None if own else self.layouts
        self.run = choice.choose(key, self.chosen, self.device, makers, layouts)

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)


def keep(result: Any, graph: KeptGraph, inputs: Sequence[Any]) -> None:
    """Puts a graph into Inductor's cache, and lets AOTAutograd's cache find it there.

    Args:
        result: what AOTAutograd is given.
        graph: what is kept of it.
        inputs: of the graph.
    """
    parts = (graph._fx_graph_cache_key, graph.way, graph.device, graph.described)
    key = f"f{hashlib.sha256(repr(parts).encode()).hexdigest()[:51]}"
    with _disable_current_modes():
        FxGraphCache._save_graph(key, graph, inputs, True, None)
    result._fx_graph_cache_key = key
    result._fx_graph_cache_debug_lines = []
    result.guards_expr = graph.guards_expr


def strides_of_results(compiled: CompiledFxGraph, sizes: Sequence[Any]) -> list[Any] | None:
    """As code has them, 1 where a dimension has no neighbours; None if they are not known.

    Args:
        compiled: the code.
        sizes: of the results; None for what is no tensor.
    """
    strides = compiled.output_strides
    if strides is None or len(strides) != len(sizes):
        return None
    return [
        each and size and tuple(int(s) if n > 1 else 1 for n, s in zip(size, each, strict=True))
        for size, each in zip(sizes, strides, strict=True)
    ]


def sizes_of_results(graph: torch.fx.GraphModule) -> list[Any]:
    """Of a graph that was not compiled yet; None for what is no tensor."""
    (output,) = graph.graph.find_nodes(op="output")
    values = (getattr(result, "meta", {}).get("val") for result in output.args[0])
    return [tuple(x.size()) if isinstance(x, torch.Tensor) else None for x in values]
