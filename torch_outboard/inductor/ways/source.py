"""What the ways of a graph are compiled from, in this process or a later one."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from torch_outboard.inductor import host_code

Compile = Callable[..., Any]

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

    def conditions(self) -> list[Any]:
        """What has to be true of open sizes, as expressions, which grow as ways are compiled."""
        from torch._inductor.utils import shape_env_from_inputs

        sizes = shape_env_from_inputs(self.inputs)
        return [guard.expr for guard in sizes.guards] if sizes is not None else []

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
                inputs = [_as_no_view(value) for value in self.inputs]
                packed = GraphPickler.dumps((module, inputs), Options(ops_filter=None))
            return pickle.dumps((packed, self.rest))
        except Exception as problem:
            log.info("a graph is not kept: %s", problem)
            return None


def _as_no_view(value: Any) -> Any:
    """An input of which its base is not known: all that a view is of would have to be picklable."""
    if not isinstance(value, FakeTensor) or not value._is_view():
        return value
    with value.fake_mode:
        return torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device=value.device
        )


def unpack(packed: bytes, settings: dict[str, Any]) -> Source:
    """What `Source.pack` packed, to be compiled by settings of Inductor."""
    from torch._inductor import compile_fx
    from torch._subclasses import FakeTensorMode
    from torch.fx._graph_pickler import GraphPickler
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    packed, rest = pickle.loads(packed)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with _disable_current_modes():
        graph, inputs = cast(Any, GraphPickler.loads(packed, mode))
    graph.recompile()
    source = Source(graph, inputs, compile_fx.compile_fx_inner, (), rest)
    source.context, source.settings = TracingContext(mode), settings
    return source
