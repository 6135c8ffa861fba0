"""Strides of results that depend on open sizes, as the code of the gradients is told them.

Inductor lays results out as suits its kernels, and AOTAutograd compiles the gradients for that.
PyTorch before 2.15 tells it numbers, those of the first sizes, but for where graphs are split for
distributed training (torch/_inductor/utils.py, `set_tracing_context_output_strides`): gradients of
batches of another size would refuse what the forward graph saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._guards import TracingContext


def telling_open_strides(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """The step of Inductor that compiles a graph, and tells what depends on sizes as it does."""

    @functools.wraps(inner_compile)
    def compile_graph(*arguments: Any, **rest: Any) -> Any:
        with _as_in_split_graphs(TracingContext.try_get()):
            return inner_compile(*arguments, **rest)

    compile_graph.tells_open_strides = True
    return compile_graph


@contextmanager
def _as_in_split_graphs(context: Any) -> Iterator[None]:
    """Within a step of Inductor, the strides that are reported are all that depends on this."""
    before = getattr(context, "fakify_first_call", True)
    if before:
        yield
        return
    context.fakify_first_call = True
    try:
        yield
    finally:
        context.fakify_first_call = False
