"""Graphs whose way their calls choose, in PyTorch's caches.

AOTAutograd's cache names what Inductor's cache keeps of a graph. What is kept here is the code of
one way and the graph itself, of which other ways are compiled when they are wanted. The choice is
no part of it: whoever loads the graph looks up what is chosen then, on that machine.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch._inductor import config
from torch._inductor.codecache import FxGraphCache
from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants
from torch.utils._python_dispatch import _disable_current_modes

from torch_outboard.inductor import host_code
from torch_outboard.inductor.policy import way_of_graphs
from torch_outboard.inductor.ways import choice
from torch_outboard.inductor.ways.open_sizes import OpenSizes, compiled_for_sizes
from torch_outboard.inductor.ways.remembered import key_of, remembered
from torch_outboard.inductor.ways.source import Source, unpack

# The way of which code is kept, and those that it is the code of.
_SERVED = {"kernels": ("kernels", "device"), "host": ("host",)}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Description:
    """What is kept of a graph beside the code of a way.

    Attributes:
        device: index of the device.
        packed: a `Source`.
        parts: what `key_of` needs to know.
        plain: whether the graph can run operator by operator.
        calls: operators of the device that code for the CPU calls.
        sizes: if they are open.
    """

    device: int
    packed: bytes
    parts: Any
    plain: bool
    calls: list[str]
    sizes: OpenSizes | None

    @property
    def ways(self) -> tuple[str, ...]:
        return ("kernels", "device", "host", *(("eager",) if self.plain else ()))


class KeptGraph(CompiledFxGraph):
    """The code of one way of a graph, and what it takes to go another way.

    Attributes:
        way: "kernels" or "host".
        about: the graph.
        layouts: strides of the results, on which the code of the gradients relies; empty if they
            depend on sizes.
    """

    def __init__(
        self, compiled: CompiledFxGraph, way: str, about: Description, layouts: Sequence[Any]
    ) -> None:
        self.__dict__.update(vars(compiled))
        self.compiled_fn_runner = None  # whoever has it deletes parts of it in the end
        self.way = way
        self.about = about
        self.layouts = layouts
        self.chosen: str | None = None
        self.code: Any = None
        self.run: Any = None

    def after_deserialization(self, constants: Any) -> str:
        """Asks for the choice, and loads the code unless another way was chosen.

        Raises:
            OSError: if no way is to be chosen, which Inductor's cache takes for a miss.
        """
        if way_of_graphs(self.about.device) != "measured":
            raise OSError("the graph was kept for another OUTBOARD_WAY")
        chosen = remembered().get(self._key_of_choice())
        self.chosen = chosen if chosen in self.about.ways else None
        if self.about.sizes is None and not self._is_own(self.chosen or self.way):
            return ""
        if self.way == "host":
            host_code.define_calls(self.about.calls)
        self.code = CompiledFxGraph.__new__(CompiledFxGraph)
        self.code.__dict__.update({**vars(self), "code": None})
        return self.code.after_deserialization(constants)

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        # The settings may be others when a way is compiled.
        unpacked = functools.partial(unpack, self.about.packed, config.get_config_copy())
        makers: dict[str, Callable[[], Any]] = {
            "kernels": lambda: unpacked().kernels(),
            "host": lambda: unpacked().host(),
        }
        if self.about.plain:
            makers["eager"] = lambda: unpacked().eager()
        code, sizes = self.code, self.about.sizes
        if code is not None:
            code.compile_region_name = getattr(self, "compile_region_name", None)
            code.post_compile(example_inputs, constants, graph_kwargs)
            own = host_code.HostGraph(code, self.about.device, []) if self.way == "host" else code
            makers[self.way] = lambda: own
            if sizes is not None:  # PyTorch checks what this code needs, not what other code does
                other = "kernels" if self.way == "host" else "host"
                makers[other] = lambda: compiled_for_sizes(unpacked(), other, own, sizes)
        elif self.chosen == "host":
            makers["host"] = lambda: self._host(unpacked, graph_kwargs)
        alike = sizes is not None or self._is_own(self.chosen or "kernels")
        layouts = None if alike else self.layouts
        key = self._key_of_choice()
        self.run = choice.choose(key, self.chosen, self.about.device, makers, layouts, sizes)

    def _is_own(self, way: str) -> bool:
        return way in _SERVED[self.way]

    def _key_of_choice(self) -> str:
        return key_of(self.about.parts, self.about.device)

    def _host(self, unpacked: Callable[[], Source], graph_kwargs: Any) -> Any:
        """Code for the host that an earlier process has kept, or else now."""
        key = digest(self._fx_graph_cache_key, self._key_of_choice(), "host")
        constants = CompiledFxGraphConstants()
        kept, _ = FxGraphCache.load_with_key(
            key, [], (), True, None, bool(graph_kwargs["is_backward"]), constants
        )
        if kept is not None and kept.chosen == "host":
            kept.post_compile((), constants, graph_kwargs)
            return kept.run
        source = unpacked()
        sizes = sizes_of_results(source.graph)
        moved = source.host()
        code: Any = getattr(moved, "compiled", None)
        layouts = strides_of_results(code, sizes)
        if layouts is not None:
            _save(key, KeptGraph(code, "host", self.about, layouts), ())
        return moved

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)


def keep(result: Any, graph: KeptGraph, inputs: Sequence[Any]) -> None:
    """Puts a graph into Inductor's cache, and lets AOTAutograd's cache find it there.

    Args:
        result: what AOTAutograd is given.
        graph: what is kept of it.
        inputs: of the graph.
    """
    key = digest(graph._fx_graph_cache_key, graph.about.parts, graph.about.device, graph.way)
    keep_as(key, result, graph, inputs)


def keep_as(key: str, result: Any, graph: CompiledFxGraph, inputs: Sequence[Any]) -> None:
    """The same under a key; see `digest`."""
    try:
        _save(key, graph, inputs)
    except (AttributeError, TypeError) as problem:  # of a PyTorch with another cache
        log.info("a graph is not kept: %s", problem)
        return
    result._fx_graph_cache_key = key
    result._fx_graph_cache_debug_lines = []
    result.guards_expr = graph.guards_expr


def digest(*parts: Any) -> str:
    """A key of Inductor's cache."""
    return f"f{hashlib.sha256(repr(parts).encode()).hexdigest()[:51]}"


def _save(key: str, graph: CompiledFxGraph, inputs: Sequence[Any]) -> None:
    with _disable_current_modes():
        FxGraphCache._save_graph(key, graph, inputs, True, None)


def strides_of_results(
    compiled: Any, sizes: Sequence[Any], are_open: bool = False
) -> list[Any] | None:
    """As code has them, 1 where a dimension has no neighbours.

    Args:
        compiled: the code.
        sizes: of the results; None for what is no tensor.
        are_open: whether they are not known yet; strides are not, either.

    Returns:
        None if they are not known of known sizes, or if PyTorch's caches do not keep the code.
    """
    strides = getattr(compiled, "output_strides", None)
    if getattr(compiled, "_fx_graph_cache_key", None) is None or strides is None:
        return None
    if are_open:
        return []
    if len(strides) != len(sizes):
        return None
    return [
        each and size and tuple(int(s) if n > 1 else 1 for n, s in zip(size, each, strict=True))
        for size, each in zip(sizes, strides, strict=True)
    ]


def sizes_of_results(graph: torch.fx.GraphModule) -> list[Any]:
    """Of a graph that was not compiled yet; None for what is no tensor."""
    (output,) = graph.graph.find_nodes(op="output")
    results = cast(Sequence[Any], output.args[0])
    values = (getattr(result, "meta", {}).get("val") for result in results)
    return [tuple(x.size()) if isinstance(x, torch.Tensor) else None for x in values]
