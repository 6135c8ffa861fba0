"""Strides of results that depend on open sizes, as the code of the gradients is told them.

Inductor lays results out as suits its kernels, and AOTAutograd compiles the gradients for that.
PyTorch before 2.15 tells it numbers, those of the first sizes, but for where graphs are split for
distributed training (torch/_inductor/utils.py, `set_tracing_context_output_strides`): gradients of
batches of another size would refuse what the forward graph saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import SymInt
from torch._guards import TracingContext
from torch._inductor.utils import shape_env_from_inputs
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

from torch_outboard.inductor.kernel.ragged import fails_at_sizes


def telling_open_strides(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """The step of Inductor that compiles a graph, and tells what depends on sizes as it does."""

    @functools.wraps(inner_compile)
    def compile_graph(gm: Any, example_inputs: Sequence[Any], **rest: Any) -> Any:
        with _as_in_split_graphs(TracingContext.try_get()), _of_numbers(example_inputs):
            return inner_compile(gm, example_inputs, **rest)

    compile_graph.tells_open_strides = True
    return compile_graph


@contextmanager
def _of_numbers(example_inputs: Sequence[Any]) -> Iterator[None]:
    """Strides are read without ragged sizes.

    Reason: PyTorch makes numbers of all sizes for it, and fails with the first that is none.
    Where: torch/fx/experimental/symbolic_shapes.py, `ShapeEnv.deserialize_symexpr`.
    Can go: with 2.15.
    """
    shape_env = shape_env_from_inputs(example_inputs)
    if shape_env is None or not fails_at_sizes(shape_env):
        yield
        return

    def deserialize_symexpr(code: str) -> Any:
        hints = {e: hint for e, hint in shape_env.backed_var_to_val.items() if hint.is_number}
        sizes = {str(e): SymInt(SymNode(e, shape_env, int, int(hint))) for e, hint in hints.items()}
        return eval(code, SYMPY_INTERP, sizes)

    shape_env.deserialize_symexpr = deserialize_symexpr
    try:
        yield
    finally:
        del shape_env.deserialize_symexpr


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
