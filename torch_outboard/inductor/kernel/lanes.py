"""Along which loop memory is contiguous, so that its neighbours become the lanes of vectors."""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.codegen.simd_kernel_features import EnableReduction
from torch._inductor.sizevars import stride_at
from torch._inductor.virtualized import V

# Shorter loops leave most lanes without work.
LEAST_LOOP = 8


def lanes_along_results(node_schedule: Any) -> bool:
    """Whether the lanes of a kernel with a reduction are results, each with its own loop.

    Otherwise they are neighbours in the reduction. Reads vote.
    """
    votes = 0
    for node in EnableReduction.filter(node_schedule):
        results, reduced = node._body.vars
        sizes = node._body.var_ranges
        if not reduced or not results:
            continue
        if short_loop(sizes[results[-1]]) and len(results) == 1:
            continue
        for index in node._body.get_read_exprs():
            if stride_at(index, reduced[-1]) == 1:
                votes -= 1
            elif stride_at(index, results[-1]) == 1:
                votes += 1
    return votes > 0


def inner_size(node_schedule: Any, reduces: bool) -> sympy.Expr | None:
    """The smallest innermost loop over results that is worth lanes, if its size is known."""
    if reduces and not lanes_along_results(node_schedule):
        return None
    sizes = []
    for node in EnableReduction.filter(node_schedule):
        results = [size for size in node.get_ranges()[0] if size != 1]
        if len(results) > 1:
            if not isinstance(results[-1], (int, sympy.Integer)):
                return None
            sizes.append(sympy.Integer(results[-1]))
    if not sizes or short_loop(min(sizes)):
        return None
    return min(sizes)


def short_loop(size: sympy.Expr) -> bool:
    return bool(V.graph.sizevars.statically_known_lt(size, LEAST_LOOP))
