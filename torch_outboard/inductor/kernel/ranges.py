"""Loops of a node by the loops of a kernel, where sizes are not known to divide each other.

Inductor divides the kernel's sizes by the node's, one after the other. With open sizes it cannot
say which of them is greater: a loop over 2 * (s // 2) is not split into loops over 2 and s // 2,
though both have as many elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import sympy
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import ModularIndexing

Lengths = Sequence[Sequence[sympy.Expr]]


def ranges_by_place(
    groups: Sequence[sympy.Expr],
    lengths: Lengths,
    set_ranges: Callable[..., list[list[sympy.Expr]]],
) -> list[list[sympy.Expr]] | None:
    """Indices of a node's loops, by the place of an element in all of the kernel's.

    Args:
        groups: sizes of the kernel's loops.
        lengths: of the node's.
        set_ranges: gives the variables of the kernel's loops for lists of sizes.

    Returns:
        None if they are not known to have as many elements.
    """
    flat = [*itertools.chain.from_iterable(lengths)]
    if not V.graph.sizevars.statically_known_equals(sympy_product(groups), sympy_product(flat)):
        return None
    place: sympy.Expr = sympy.S.Zero
    for size, variables in zip(groups, set_ranges(*([size] for size in groups)), strict=True):
        place = place * size + variables[0]
    indices: list[sympy.Expr] = []
    inner: sympy.Expr = sympy.S.One
    for size in reversed(flat):
        indices.append(ModularIndexing(place, inner, size) if size != 1 else sympy.S.Zero)
        inner = inner * size
    return [[indices.pop() for _ in sizes] for sizes in lengths]
