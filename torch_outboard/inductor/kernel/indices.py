"""Indices in a kernel: the loop of the lanes, strides between lanes, and indices read from memory.

The lanes of a vector are neighbours in a loop along which memory is contiguous.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot, SIMDKernel
from torch._inductor.codegen.simd_kernel_features import EnableReduction
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv, Identity, ModularIndexing
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_outboard.inductor.kernel.loops import sorts
from torch_outboard.inductor.kernel.parameters import assertion
from torch_outboard.inductor.opencl.memory_sources import REPEATED
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.opencl.value_types import LANES, broadcast, is_vector, value_type
from torch_outboard.inductor.overrides import dtype_of, operand
from torch_outboard.inductor.target import target_of

try:  # functions for the stride of an index along a variable
    from torch._inductor.sizevars import stride_at, stride_at_vec_range
except ImportError:  # before 2.13
    from torch._inductor.codegen.cpp import (  # type: ignore[no-redef]
        stride_at,
        stride_at_vec_range,
    )

# Elements; shorter loops leave most lanes without work.
_LEAST_LOOP = 8


class Indices(SIMDKernel[CSEVariable]):
    """The part of a kernel for indices."""

    # ---- Lanes

    def choose_lanes(self) -> None:
        """Sets the range tree with lanes, and the number of lanes; see the module docstring."""
        self.lanes = self.target.lanes
        results = [tree for tree in self.range_trees if not tree.is_reduction]
        last = results[-1] if results else None
        inner = next((tree for tree in results if tree.prefix == "x"), last)
        self.inner_tree: IterationRangesRoot | None = inner
        self.lane_tree = inner
        reductions = self.reduction_trees()
        schedule = self.features.node_schedule
        if any(map(sorts, schedule)):
            along_results = self.target.group == 1  # a line per lane; on a GPU one per work-group
        else:
            along_results = inner is not None and lanes_along_results(schedule)
        if reductions and self.features.is_reduction() and not along_results:
            self.lane_tree = reductions[-1]
        tree = self.lane_tree
        if tree is not None and V.graph.sizevars.statically_known_equals(tree.numel, 1):
            self.lanes = 1
        in_reduction = tree is not None and tree.is_reduction
        # Work-items of a work-group share the loop over a reduction.
        self.grouped = self.target.group > 1 and in_reduction
        if self.lanes == 1 and not in_reduction:
            self.lane_tree = None

    def reduction_trees(self) -> list[IterationRangesRoot]:
        """Range trees of a reduction, the inner one last."""
        return [tree for tree in self.range_trees if tree.is_reduction]

    @property
    def lanes_active(self) -> bool:
        tree = self.lane_tree
        return tree is not None and (not tree.is_reduction or self.inside_reduction)

    def has_lanes(self, symbol: sympy.Symbol) -> bool:
        """Whether an index differs between lanes."""
        if is_vector(symbol.name):
            return True
        entry = self.range_tree_nodes.get(symbol)
        return entry is not None and self.lanes_active and entry.root is self.lane_tree

    def lane_stride(self, index: sympy.Expr) -> sympy.Expr | None:
        """Elements between neighbouring lanes: 0 for one shared element, None if not constant."""
        if not any(self.has_lanes(symbol) for symbol in index.free_symbols):
            return sympy.S.Zero
        if any(is_vector(symbol.name) for symbol in index.free_symbols):
            return None
        root, index = self._along_lanes(index)
        index = steady_across_lanes(index, root, self.lanes)
        stride = stride_at_vec_range(index, root, self.lanes)
        return stride if isinstance(stride, sympy.Integer) else None

    def lane_repeats(self, index: sympy.Expr) -> int:
        """How many neighbouring lanes share an element, if the next share the next; else 0."""
        if any(is_vector(symbol.name) for symbol in index.free_symbols) or self.lanes == 1:
            return 0
        root, index = self._along_lanes(index)
        return repeats_across_lanes(index, root, self.lanes)

    def _along_lanes(self, index: sympy.Expr) -> tuple[sympy.Symbol, sympy.Expr]:
        """The index of the loop with lanes, and `index` in terms of it."""
        assert self.lane_tree is not None
        entries = {
            symbol: entry.expr
            for symbol in index.free_symbols
            if (entry := self.range_tree_nodes.get(symbol)) is not None
            and entry.root is self.lane_tree
        }
        return self.lane_tree.index_sym(), sympy_subs(index, entries)

    # ---- Indices

    @property
    def index_torch_dtype(self) -> torch.dtype:
        return self.get_index_dtype_as_torch_dtype()

    @property
    def real_dtype(self) -> torch.dtype:
        return torch.float64 if self.target.float64 else torch.float32

    @property
    def index_type(self) -> str:
        return value_type(self.index_torch_dtype)

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return value_type(dtype)

    def scalar_index(self, index: sympy.Expr) -> str:
        """Source of the index of the first lane."""
        return str(print_expression(self.rename_indexing(index)))

    def vector_index(self, index: sympy.Expr, wide: bool = False) -> str:
        """Source of the indices of all lanes; in 64 bits if `wide`."""
        index = self.rename_indexing(index)
        if any(self.has_lanes(symbol) for symbol in index.free_symbols):
            # Quotients of sizes are of type long, which OpenCL does not mix with int vectors.
            kind = "long" if wide else self.index_type
            index = index.replace(
                lambda part: (
                    isinstance(part, FloorDiv | ModularIndexing)
                    and not any(self.has_lanes(symbol) for symbol in part.free_symbols)
                ),
                lambda part: _named(
                    f"({kind})({print_expression(part)})",
                    isinstance(part, ModularIndexing) or part.is_nonnegative,
                ),
            )
        replaced = {}
        for symbol in index.free_symbols:
            name = symbol.name
            if name.startswith("("):
                continue
            if self.has_lanes(symbol):
                name = name if is_vector(name) else f"{name}_{LANES}"
                source = f"convert_long{LANES}({name})" if wide else name
            else:
                source = f"(long){name}" if wide else name
            if source != symbol.name:
                replaced[symbol] = _named(source, symbol in self.checked or symbol.is_nonnegative)
        return str(print_expression(sympy_subs(index, replaced)))

    def bounds_of(self, index: sympy.Expr) -> ValueRanges[Any]:
        """Range of an index by the sizes of its loops; unknown if it has other variables."""
        ranges = {}
        index = without_identities(index)
        for symbol in index.free_symbols:
            entry = self.range_tree_nodes.get(symbol)
            if entry is None or not index.is_integer or not isinstance(entry.length, sympy.Integer):
                return ValueRanges.unknown()
            ranges[symbol] = ValueRanges(0, entry.length - 1)
        return bound_sympy(index, ranges)

    def lane_indices(self, index: sympy.Expr) -> CSEVariable:
        """A variable with the indices of all lanes."""
        source = self.vector_index(index)
        if not is_vector(source):
            source = broadcast(source, self.index_torch_dtype)
        return self.cse.generate(self.compute, source, dtype=self.index_torch_dtype)

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        buffer = self.loop_indexing if entry.is_reduction else self.indexing_code
        expression = self.rename_indexing(entry.expr)
        kind = self.index_type
        buffer.writeline(f"const {kind} {entry.name} = {print_expression(expression)};")
        if entry.root is self.lane_tree:
            root = entry.root.index_sym()
            marked = sympy.Symbol(f"{root.name}_{LANES}", integer=True, nonnegative=True)
            vector = print_expression(sympy_subs(expression, {root: marked}))
            buffer.writeline(f"const {kind}{LANES} {entry.name}_{LANES} = {vector};")

    def checked_index(self, variable: CSEVariable, size: Any, check: bool) -> sympy.Symbol:
        """An index read from memory. If `check`, one out of range is reported and becomes 0."""
        dtype = dtype_of(variable)
        if not dtype.is_signed or dtype.itemsize < 4:
            dtype = torch.int64
        vector = is_vector(variable)
        source = operand(variable, dtype, vector)
        within = variable.bounds.lower >= 0 and (
            isinstance(size, sympy.Number) and variable.bounds.upper < size
        )
        if check and not within:
            source = operand(variable, dtype, vector or is_vector(self._load_mask))
            source = self._checked(source, dtype, self.scalar_index(size))
        if dtype != self.index_torch_dtype:
            source = f"convert_{self.index_type}{LANES if is_vector(source) else ''}({source})"
        index = self.cse.generate(
            self.compute, source, bounds=variable.bounds, dtype=self.index_torch_dtype
        )
        symbol = sympy.Symbol(str(index), integer=True)
        self.checked[symbol] = size if check or within else sympy.oo
        return symbol

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if expr in self.checked or not (lower or upper):
            return
        index = self.vector_index(self.prepare_indexing(expr))
        end = self.scalar_index(size) if upper else f"{self.index_type.upper()}_MAX"
        self.compute.writeline(f"{self._checked(index, self.index_torch_dtype, end)};")

    def _checked(self, index: str, dtype: torch.dtype, end: str) -> str:
        """Source of an index, which is reported if it is out of range where the mask is true."""
        self.reports = True
        mask = "1" if self._load_mask is None else str(self._load_mask)
        lanes = LANES if is_vector(index) else ""
        if lanes:
            mask = broadcast(mask, torch.bool)
        elif is_vector(mask):  # check the index if any lane uses it
            mask = f"ob_any{LANES}({mask})"
        return f"ob_checked_{value_type(dtype)}{lanes}({index}, {end}, {mask}, ob_fault)"

    def check_divisor(self, divisor: Any, dtype: torch.dtype) -> None:
        """Makes the next synchronization raise on integer division by zero; CPU raises at once."""
        if isinstance(divisor, CSEVariable):
            if divisor.bounds.lower > 0 or divisor.bounds.upper < 0:
                return
        elif divisor != 0:
            return
        right = ops.ne(divisor, ops.constant(0, dtype))
        if self._load_mask is not None:
            right = ops.logical_or(right, ops.logical_not(self._load_mask))
        self.device_assert_async(
            getattr(right, "value", right),
            "ZeroDivisionError: integers were divided by zero in a compiled graph",
        )

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        word = self.assertions.setdefault(msg, assertion(len(self.assertions), msg)).name
        lanes = LANES if is_vector(cond) else ""
        self.compute.writeline(f"if (!ob_all{lanes}({cond})) *{word} = 1;")


def _named(source: str, nonnegative: bool | None) -> sympy.Symbol:
    """Source as a symbol of an expression; SymPy simplifies with its sign."""
    return sympy.Symbol(source, integer=True, **({"nonnegative": True} if nonnegative else {}))


def lanes_along_results(node_schedule: Any) -> bool:
    """Whether the lanes of a kernel with a reduction are results, each with its own loop.

    Otherwise they are neighbours in the reduction. Each contiguous read votes for its loop.
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
    """Whether vectors along a loop are contiguous in memory."""
    if stride_at(index, variable) == 1:
        return True
    lanes = target_of(V.graph.get_current_device_or_throw()).lanes
    return lanes > 1 and stride_at(steady_across_lanes(index, variable, lanes), variable) == 1


def inner_size(node_schedule: Any, reduces: bool) -> sympy.Expr | None:
    """Size of the smallest innermost loop over results; None if unknown or too short for lanes."""
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
    return bool(V.graph.sizevars.statically_known_lt(size, _LEAST_LOOP))


def without_identities(index: sympy.Expr) -> sympy.Expr:
    """Removes Inductor's marks around parts of an index that it does not want simplified."""
    return index.replace(Identity, lambda inner: inner)


def steady_across_lanes(index: sympy.Expr, root: sympy.Symbol, lanes: int) -> sympy.Expr:
    """Replaces quotients that are equal in all lanes of a vector by symbols, to find strides only.

    Vectors start at multiples of `lanes` of the loop `root`.
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
    """How many neighbouring lanes share an element, if the next share the next; else 0.

    Nearest-neighbour upsampling has such indices. Vectors start at multiples of `lanes` of the loop
    `root`.
    """
    index = steady_across_lanes(index, root, lanes)
    slot = sympy.Symbol("slot", integer=True, nonnegative=True)
    for times in REPEATED:
        if times >= lanes:
            break

        def quotient(base: sympy.Expr, divisor: sympy.Expr, times: int = times) -> sympy.Expr:
            whole = FloorDiv(base, divisor)
            known = divisor == times and _starts_at_multiple(base, root, lanes)
            return _steady(whole) + slot if known else whole

        def rest(
            base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr, times: int = times
        ) -> sympy.Expr:
            whole = ModularIndexing(base, divisor, modulus)
            wraps = not modulus.is_Integer or modulus * times % lanes != 0
            known = divisor == times and not wraps and _starts_at_multiple(base, root, lanes)
            return _steady(whole) + slot if known else whole

        found = index.replace(FloorDiv, quotient).replace(ModularIndexing, rest)
        if not found.has(root) and not sympy.expand(found - slot).has(slot):
            return times
    return 0


def _starts_at_multiple(base: sympy.Expr, root: sympy.Symbol, lanes: int) -> bool:
    """Whether an expression is a multiple of `lanes` in the first lane, and grows by 1 per lane."""
    steps = sympy.Symbol("steps", integer=True, nonnegative=True)
    terms = sympy.Add.make_args(sympy.expand(base.subs(root, lanes * steps)))
    counts = base.has(root) and base.coeff(root) == 1
    return bool(counts and all(term.as_coeff_Mul()[0] % lanes == 0 for term in terms))


def _steady(expression: sympy.Expr) -> sympy.Symbol:
    return sympy.Symbol(f"steady_{expression}", integer=True, nonnegative=True)
