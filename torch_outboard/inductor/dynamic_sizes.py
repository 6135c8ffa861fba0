"""Fixes for dynamic shapes that PyTorch does not handle, or handles wrongly.

Strides of results: Inductor chooses the layouts of results, and AOTAutograd compiles the gradients
for them. PyTorch before 2.15 reports these strides as numbers, for the first sizes, except where it
splits graphs for distributed training (torch/_inductor/utils.py,
`set_tracing_context_output_strides`). Gradients of batches of another size would refuse the tensors
that the forward graph saved.

Ragged tensors (`torch.jagged`): some of their sizes are not numbers.

Loops: Inductor divides the kernel's sizes by the node's, one after the other. It cannot compare
dynamic sizes: it does not split a loop over 2 * (s // 2) into loops over 2 and s // 2, though both
have equally many elements.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import sympy
import torch
from torch import SymInt
from torch._guards import TracingContext
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.utils import shape_env_from_inputs, sympy_product
from torch._inductor.virtualized import V
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils._sympy.functions import ModularIndexing

Lengths = Sequence[Sequence[sympy.Expr]]

_FAILS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)


def fails_at_sizes(shape_env: Any) -> bool:
    """Whether a graph's inputs have a ragged size, at which PyTorch before 2.15 fails."""
    hints = shape_env.backed_var_to_val.values()
    return _FAILS and any(not hint.is_number for hint in hints)


def without_guards_of_ragged_sizes(features: SIMDKernelFeatures) -> SIMDKernelFeatures:
    """The features of a kernel, with 64-bit indices if 32-bit ones would guard ragged sizes.

    Reason: Dynamo has no source for the number of rows of a ragged tensor; a guard on it raises
    IndexError.
    Where: torch/fx/experimental/symbolic_shapes.py, `ShapeEnv.produce_guards_verbose`.
    Upstream: pytorch#193059.
    Can go: with 2.15.
    """
    if fails_at_sizes(V.graph.sizevars.shape_env):
        features.select_index_dtype = lambda: torch.int64
    return features


def telling_dynamic_strides(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Inductor's step that compiles a graph, to report strides as expressions of sizes."""

    @functools.wraps(inner_compile)
    def compile_graph(gm: Any, example_inputs: Sequence[Any], **rest: Any) -> Any:
        with _as_in_split_graphs(TracingContext.try_get()), _of_numbers(example_inputs):
            return inner_compile(gm, example_inputs, **rest)

    return compile_graph


def _of_numbers(example_inputs: Sequence[Any]) -> AbstractContextManager[Any]:
    """Reads strides without ragged sizes.

    Reason: PyTorch converts all sizes to numbers to read strides, and fails at a ragged size.
    Where: torch/fx/experimental/symbolic_shapes.py, `ShapeEnv.deserialize_symexpr`.
    Can go: with 2.15.
    """
    shape_env = shape_env_from_inputs(example_inputs)
    if shape_env is None or not fails_at_sizes(shape_env):
        return nullcontext()

    def deserialize_symexpr(code: str) -> Any:
        hints = {e: hint for e, hint in shape_env.backed_var_to_val.items() if hint.is_number}
        sizes = {str(e): SymInt(SymNode(e, shape_env, int, int(hint))) for e, hint in hints.items()}
        return eval(code, SYMPY_INTERP, sizes)

    return patch.object(shape_env, "deserialize_symexpr", deserialize_symexpr)


def _as_in_split_graphs(context: Any) -> AbstractContextManager[Any]:
    """Sets the flag of split graphs; in a step of Inductor only reported strides depend on it."""
    if context is None:
        return nullcontext()
    return patch.object(context, "fakify_first_call", True, create=True)


def ranges_by_location(
    groups: Sequence[sympy.Expr],
    lengths: Lengths,
    set_ranges: Callable[..., list[list[sympy.Expr]]],
) -> list[list[sympy.Expr]] | None:
    """Indices of a node's loops, from an element's linear index in the kernel's loops.

    Args:
        groups: sizes of the kernel's loops.
        lengths: sizes of the node's loops.
        set_ranges: returns the variables of the kernel's loops for lists of sizes.

    Returns:
        The indices; None if both are not known to have equally many elements.
    """
    flat = [*itertools.chain.from_iterable(lengths)]
    if not V.graph.sizevars.statically_known_equals(sympy_product(groups), sympy_product(flat)):
        return None
    linear: sympy.Expr = sympy.S.Zero
    for size, variables in zip(groups, set_ranges(*([size] for size in groups)), strict=True):
        linear = linear * size + variables[0]
    indices: list[sympy.Expr] = []
    inner: sympy.Expr = sympy.S.One
    for size in reversed(flat):
        indices.append(ModularIndexing(linear, inner, size) if size != 1 else sympy.S.Zero)
        inner = inner * size
    return [[indices.pop() for _ in sizes] for sizes in lengths]
