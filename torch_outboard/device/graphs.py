"""Graphs of captured work under the names of torch.cuda, based on `torch.accelerator.Graph`."""

from __future__ import annotations

from typing import Any, cast

import torch

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, device_index
from torch_outboard.device.lazy_init import _lazy_init
from torch_outboard.device.streams import Stream, stream

__all__ = [
    "Graph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
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

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)

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


class graph:
    """Context manager that captures the work of its body into a graph.

    Args:
        graph: the graph to capture into.
        pool: the memory pool of captured work; a pool of its own by default.
        stream: the stream to capture on; one for all such contexts by default.
        capture_error_mode: as for `Graph.capture_begin`.
    """

    _default_stream: Stream | None = None

    def __init__(
        self,
        graph: Graph,
        pool: tuple[int, int] | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "default",
    ) -> None:
        self._graph = graph
        self._pool = pool
        self._stream = stream
        self._mode = capture_error_mode

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        torch.accelerator.empty_cache()
        chosen = self._stream
        if chosen is None:
            chosen = graph._default_stream
            if chosen is None or chosen.device_index != _C.current_device():
                chosen = graph._default_stream = Stream()
        self._context = stream(chosen)
        self._context.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._context.__exit__()
