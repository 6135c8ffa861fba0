"""Along which loop memory is contiguous, so that its neighbours become the lanes of vectors."""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.codegen.simd_kernel_features import EnableReduction
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, Identity, ModularIndexing

from torch_outboard.inductor.opencl.memory_texts import REPEATED
from torch_outboard.inductor.target import target_of

try:  # by how much an index grows with a variable
    from torch._inductor.sizevars import stride_at, stride_at_vec_range
except ImportError:  # before 2.13
    from torch._inductor.codegen.cpp import (  # type: ignore[no-redef]
        stride_at,
        stride_at_vec_range,
    )

__all__ = [
    "inner_size", "lanes_along_results", "repeats_across_lanes", "short_loop",
    "steady_across_lanes", "stride_at_vec_range", "without_identities",
]  # fmt: skip


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
            if _neighbours(index, reduced[-1]):
                votes -= 1
            elif _neighbours(index, results[-1]):
                votes += 1
    return votes > 0


def _neighbours(index: sympy.Expr, variable: sympy.Symbol) -> bool:
    """Whether vectors along a loop lie in one piece of memory."""
    if stride_at(index, variable) == 1:
        return True
    lanes = target_of(V.graph.get_current_device_or_throw()).lanes
    return lanes > 1 and stride_at(steady_across_lanes(index, variable, lanes), variable) == 1


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


def without_identities(index: sympy.Expr) -> sympy.Expr:
    """Inductor marks parts of an index that it does not want simplified."""
    return index.replace(Identity, lambda inner: inner)


def steady_across_lanes(index: sympy.Expr, root: sympy.Symbol, lanes: int) -> sympy.Expr:
    """An index, with quotients that are the same for all lanes of a vector as symbols.

    Vectors start at multiples of `lanes` of the loop `root`. For finding strides only.
    """
    index = without_identities(index)

    def steady(base: sympy.Expr, divisor: sympy.Expr) -> bool:
        multiple = divisor.is_Integer and divisor % lanes == 0
        return bool(multiple and _starts_at_multiple(base, root, lanes))

    def quotient(base: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
        whole = FloorDiv(base, divisor)
        return _steady(whole) if steady(base, divisor) else whole

    def rest(base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr) -> sympy.Expr:
        whole = ModularIndexing(base, divisor, modulus)
        if steady(base, divisor):
            return _steady(whole)
        if divisor == 1 and steady(base, modulus):
            return root + modulus * _steady(whole)
        return whole

    return index.replace(FloorDiv, quotient).replace(ModularIndexing, rest)


def repeats_across_lanes(index: sympy.Expr, root: sympy.Symbol, lanes: int) -> int:
    """How many lanes beside each other have one place, and the next ones the next; 0: not so.

    As where an image is made larger. Vectors start at multiples of `lanes` of the loop `root`.
    """
    index = steady_across_lanes(index, root, lanes)
    place = sympy.Symbol("place", integer=True, nonnegative=True)
    for times in REPEATED:
        if times >= lanes:
            break

        def quotient(base: sympy.Expr, divisor: sympy.Expr, times: int = times) -> sympy.Expr:
            whole = FloorDiv(base, divisor)
            known = divisor == times and _starts_at_multiple(base, root, lanes)
            return _steady(whole) + place if known else whole

        def rest(
            base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr, times: int = times
        ) -> sympy.Expr:
            whole = ModularIndexing(base, divisor, modulus)
            wraps = not modulus.is_Integer or modulus * times % lanes != 0
            known = divisor == times and not wraps and _starts_at_multiple(base, root, lanes)
            return _steady(whole) + place if known else whole

        found = index.replace(FloorDiv, quotient).replace(ModularIndexing, rest)
        if not found.has(root) and not sympy.expand(found - place).has(place):
            return times
    return 0


def _starts_at_multiple(base: sympy.Expr, root: sympy.Symbol, lanes: int) -> bool:
    """Whether an expression counts lanes from a multiple of their number."""
    steps = sympy.Symbol("steps", integer=True, nonnegative=True)
    terms = sympy.Add.make_args(sympy.expand(base.subs(root, lanes * steps)))
    counts = base.has(root) and base.coeff(root) == 1
    return bool(counts and all(term.as_coeff_Mul()[0] % lanes == 0 for term in terms))


def _steady(expression: sympy.Expr) -> sympy.Symbol:
    return sympy.Symbol(f"steady_{expression}", integer=True, nonnegative=True)
