"""Sums at places that are read, of which processors need not know of each other.

A gradient of `gather`, of sizes that were interpolated, or of the maxima of windows adds within a
row or a plane of its result, wherever the indices that it reads point to. A processor that takes
all units of a plane adds without atomic exchanges.
"""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.utils import sympy_product
from torch.utils._sympy.functions import CeilDiv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_outboard.inductor.kernel.lanes import without_identities


def units_together(kernel: Any) -> int | None:
    """Units, of those that follow each other, that add to places of which others keep away.

    None if nothing of the kind is known of all its sums.
    """
    trees = kernel._pointwise_trees()
    if kernel.features.is_reduction() or kernel.shared_text or not trees:
        return None
    if not all(isinstance(tree.numel, sympy.Integer) for tree in trees):
        return None
    found = {(name, *known) for name, index in kernel.added_at if (known := _plane(kernel, index))}
    names = {name for name, _ in kernel.added_at}
    steps = {step for _, step, _ in found}
    # Each sum is known, all by the same units, and those into one buffer by the same planes.
    every = all(_plane(kernel, index) is not None for _, index in kernel.added_at)
    if not every or len(steps) != 1 or len(found) != len(names):
        return None
    return _in_units(kernel, steps.pop())


def _plane(kernel: Any, index: sympy.Expr) -> tuple[int, int] | None:
    """Steps of the outer loop that stay in a part of the memory, and the size of that part."""
    root = kernel._pointwise_trees()[0]
    index = sympy.expand(without_identities(index))
    ranges: dict[sympy.Symbol, ValueRanges[Any]] = {}
    outer = None
    for symbol in index.free_symbols:
        entry = kernel.range_tree_nodes.get(symbol)
        size = kernel.checked.get(symbol) if entry is None else entry.length
        if not isinstance(size, sympy.Integer):
            return None
        ranges[symbol] = ValueRanges(0, size - 1)
        # The loop from some step on, up to its end.
        if entry is not None and entry.root is root and entry.divisor * size == root.numel:
            outer = entry
    if outer is None:
        return None
    size = index.coeff(outer.symbol())
    rest = index - size * outer.symbol()
    if not isinstance(size, sympy.Integer) or rest.has(outer.symbol()):
        return None
    bounds = bound_sympy(rest, ranges)
    return (int(outer.divisor), int(size)) if bounds.lower >= 0 and bounds.upper < size else None


def _in_units(kernel: Any, step: int) -> int | None:
    """How many units so many steps of the outer loop are, where they are whole ones."""
    others = kernel._pointwise_trees()[1:]
    block = kernel.block()
    if not others:
        return step // block if step % block == 0 else None
    inner = CeilDiv(others[-1].numel, block)
    return int(step * sympy_product([*(tree.numel for tree in others[:-1]), inner]))
