"""The `ocl` driver with graphs that tests can look into.

What a queue is given while it captures is kept, and done at each launch of the graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tests.device_kernels import changed_driver
from torch_outboard.drivers.contract import Argument, Launch, Status

Command = tuple[Callable[..., int], tuple[Any, ...]]  # a function, its arguments after the queue

captures: dict[int, list[Command]] = {}  # of queues that capture
graphs: dict[int, list[Command]] = {}  # that were not released
reads = 0  # copies to the host so far


def use() -> None:
    """Makes it the driver of this process; to be called before the first use of the device."""
    original = changed_driver.original()
    changed_driver.use(
        launch=_recorded(original.launch, _copy_of_launch),
        fill=_recorded(original.fill, _copy_of_fill),
        copy_device_to_device=_recorded(original.copy_device_to_device, lambda *given: given),
        copy_device_to_host=_counted(_refused(original.copy_device_to_host)),
        copy_host_to_device=_refused(original.copy_host_to_device),
        queue_synchronize=_refused(original.queue_synchronize),
        graph_begin=_begin,
        graph_end=_end,
        graph_launch=_launch,
        graph_release=_release,
    )


def _recorded(function: Callable[..., int], copy: Callable[..., tuple[Any, ...]]) -> Any:
    def call(context: int, queue: int, *arguments: Any) -> int:
        if queue not in captures:
            return function(context, queue, *arguments)
        captures[queue].append((function, copy(*arguments)))
        return Status.OK

    return call


def _refused(function: Callable[..., int]) -> Any:
    """What needs the host cannot be captured."""

    def call(context: int, queue: int, *arguments: Any) -> int:
        return Status.UNSUPPORTED if queue in captures else function(context, queue, *arguments)

    return call


def _counted(function: Callable[..., int]) -> Any:
    def call(*arguments: Any) -> int:
        global reads
        reads += 1
        return function(*arguments)

    return call


def _copy_of_launch(launch: Any) -> tuple[Any, ...]:
    given = launch.contents
    copied = Launch.from_buffer_copy(given)
    arguments = (Argument * given.argument_count)()
    values = []
    for i, argument in enumerate(arguments):
        ctypes.pointer(argument)[0] = given.arguments[i]
        if argument.value:
            values.append(
                ctypes.create_string_buffer(ctypes.string_at(argument.value, argument.size))
            )
            argument.value = ctypes.addressof(values[-1])
    copied.arguments = arguments
    copied.values = values  # kept alive
    return (ctypes.pointer(copied),)


def _copy_of_fill(address: int, pattern: int, pattern_bytes: int, count: int) -> tuple[Any, ...]:
    kept = ctypes.create_string_buffer(ctypes.string_at(pattern, pattern_bytes))
    return (address, kept, pattern_bytes, count)


def _begin(context: int, queue: int) -> int:
    if queue in captures:
        return Status.INVALID_ARGUMENT
    captures[queue] = []
    return Status.OK


def _end(context: int, queue: int, graph: Any) -> int:
    number = max(graphs, default=0) + 1
    graphs[number] = captures.pop(queue)
    graph[0] = number
    return Status.OK


def _launch(context: int, queue: int, graph: int) -> int:
    if queue in captures:
        captures[queue] += graphs[graph]
        return Status.OK
    statuses = [function(context, queue, *arguments) for function, arguments in graphs[graph]]
    return max(statuses, default=Status.OK)


def _release(context: int, graph: int) -> int:
    return Status.ERROR if graphs.pop(graph, None) is None else Status.OK
