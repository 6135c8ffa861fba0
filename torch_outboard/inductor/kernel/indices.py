"""Indices in a kernel: which differ between lanes, how far apart, and which were read."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_outboard.inductor.kernel.lanes import (
    lanes_along_results,
    repeats_across_lanes,
    steady_across_lanes,
    stride_at_vec_range,
    without_identities,
)
from torch_outboard.inductor.kernel.parameters import assertion
from torch_outboard.inductor.kernel.reduction.sorts import sorts
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.opencl.value_types import LANES, broadcast, is_vector, value_type
from torch_outboard.inductor.overrides import dtype_of, operand


class Indices:
    """The part of a kernel that knows places."""

    # ---- Lanes

    def choose_lanes(self: Any) -> None:
        """Which range tree has lanes, and how many; see the module."""
        self.lanes = self.target.lanes
        trees = [tree for tree in self.range_trees if not tree.is_reduction]
        inner: IterationRangesRoot | None = trees[-1] if trees else None
        for tree in trees:
            if tree.prefix == "x":
                inner = tree
        self.inner_tree = inner
        reductions = [tree for tree in self.range_trees if tree.is_reduction]
        known = V.graph.sizevars.statically_known_equals
        self.lane_tree: IterationRangesRoot | None = inner
        schedule = self.features.node_schedule
        if any(map(sorts, schedule)):
            along_results = self.target.group == 1  # each lane sorts, or a group does
        else:
            along_results = inner is not None and lanes_along_results(schedule)
        if reductions and self.features.is_reduction() and not along_results:
            self.lane_tree = reductions[-1]
        if self.lanes == 1 or (self.lane_tree is not None and known(self.lane_tree.numel, 1)):
            self.lanes = 1
        # Work items of a group share the loop over a reduction.
        self.grouped = (
            self.target.group > 1 and self.lane_tree is not None and self.lane_tree.is_reduction
        )
        if self.lanes == 1 and not (self.lane_tree is not None and self.lane_tree.is_reduction):
            self.lane_tree = None

    @property
    def lanes_active(self: Any) -> bool:
        tree = self.lane_tree
        return tree is not None and (not tree.is_reduction or self.inside_reduction)

    def has_lanes(self: Any, symbol: sympy.Symbol) -> bool:
        """Whether an index differs between lanes."""
        if is_vector(symbol.name):
            return True
        entry = self.range_tree_nodes.get(symbol)
        return entry is not None and self.lanes_active and entry.root is self.lane_tree

    def lane_stride(self: Any, index: sympy.Expr) -> sympy.Expr | None:
        """How far apart neighbouring lanes are: 0 if they are not; None if that differs."""
        if not any(self.has_lanes(symbol) for symbol in index.free_symbols):
            return sympy.S.Zero
        if any(is_vector(symbol.name) for symbol in index.free_symbols):
            return None
        root, index = self._along_lanes(index)
        index = steady_across_lanes(index, root, self.lanes)
        stride = stride_at_vec_range(index, root, self.lanes)
        return stride if isinstance(stride, sympy.Integer) else None

    def lane_repeats(self: Any, index: sympy.Expr) -> int:
        """How many neighbouring lanes share an element, if the next ones have the next; else 0."""
        if any(is_vector(symbol.name) for symbol in index.free_symbols) or self.lanes == 1:
            return 0
        root, index = self._along_lanes(index)
        return repeats_across_lanes(index, root, self.lanes)

    def _along_lanes(self: Any, index: sympy.Expr) -> tuple[sympy.Symbol, sympy.Expr]:
        """The loop with lanes, and an index by it."""
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
    def index_torch_dtype(self: Any) -> torch.dtype:
        return self.get_index_dtype_as_torch_dtype()

    @property
    def real_dtype(self: Any) -> torch.dtype:
        return torch.float64 if self.target.float64 else torch.float32

    @property
    def index_type(self: Any) -> str:
        return value_type(self.index_torch_dtype)

    def dtype_to_str(self: Any, dtype: torch.dtype) -> str:
        return value_type(dtype)

    def scalar_index(self: Any, index: sympy.Expr) -> str:
        """The index of the first lane."""
        return str(print_expression(self.rename_indexing(index)))

    def vector_index(self: Any, index: sympy.Expr, wide: bool = False) -> str:
        """The indices of all lanes; with 64 bits if `wide`."""
        index = self.rename_indexing(index)
        if any(self.has_lanes(symbol) for symbol in index.free_symbols):
            # Quotients of sizes are long, which vectors of int do not take.
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
                text = f"convert_long{LANES}({name})" if wide else name
            else:
                text = f"(long){name}" if wide else name
            if text != symbol.name:
                replaced[symbol] = _named(text, symbol in self.checked or symbol.is_nonnegative)
        return str(print_expression(sympy_subs(index, replaced)))

    def bounds_of(self: Any, index: sympy.Expr) -> ValueRanges[Any]:
        """Between which numbers an index is, by the sizes of its loops; unknown for others."""
        ranges = {}
        index = without_identities(index)
        for symbol in index.free_symbols:
            entry = self.range_tree_nodes.get(symbol)
            if entry is None or not index.is_integer or not isinstance(entry.length, sympy.Integer):
                return ValueRanges.unknown()
            ranges[symbol] = ValueRanges(0, entry.length - 1)
        return bound_sympy(index, ranges)

    def lane_indices(self: Any, index: sympy.Expr) -> CSEVariable:
        """A variable with the indices of all lanes."""
        text = self.vector_index(index)
        if not is_vector(text):
            text = broadcast(text, self.index_torch_dtype)
        return self.cse.generate(self.compute, text, dtype=self.index_torch_dtype)

    def codegen_iteration_ranges_entry(self: Any, entry: IterationRangesEntry) -> None:
        buffer = self.loop_indexing if entry.is_reduction else self.indexing_code
        expression = self.rename_indexing(entry.expr)
        kind = self.index_type
        buffer.writeline(f"const {kind} {entry.name} = {print_expression(expression)};")
        if entry.root is self.lane_tree:
            root = entry.root.index_sym()
            marked = sympy.Symbol(f"{root.name}_{LANES}", integer=True, nonnegative=True)
            vector = print_expression(sympy_subs(expression, {root: marked}))
            buffer.writeline(f"const {kind}{LANES} {entry.name}_{LANES} = {vector};")

    def checked_index(self: Any, variable: CSEVariable, size: Any, check: bool) -> sympy.Symbol:
        """An index that was read. One that is out of range is reported, and 0 instead."""
        dtype = dtype_of(variable)
        if not dtype.is_signed or dtype.itemsize < 4:
            dtype = torch.int64
        vector = is_vector(variable)
        text = operand(variable, dtype, vector)
        within = variable.bounds.lower >= 0 and (
            isinstance(size, sympy.Number) and variable.bounds.upper < size
        )
        if check and not within:
            self.reports = True
            mask = "1" if self._load_mask is None else str(self._load_mask)
            vector = vector or is_vector(mask)
            lanes = LANES if vector else ""
            text = operand(variable, dtype, vector)
            mask = broadcast(mask, torch.bool) if vector else mask
            text = (
                f"ob_checked_{value_type(dtype)}{lanes}({text}, {self.scalar_index(size)}, {mask}, "
                "ob_fault)"
            )
        if dtype != self.index_torch_dtype:
            text = f"convert_{self.index_type}{LANES if is_vector(text) else ''}({text})"
        index = self.cse.generate(
            self.compute, text, bounds=variable.bounds, dtype=self.index_torch_dtype
        )
        symbol = sympy.Symbol(str(index), integer=True)
        self.checked[symbol] = size if check or within else sympy.oo
        return symbol

    def check_bounds(
        self: Any, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool
    ) -> None:
        if expr in self.checked or not (lower or upper):
            return
        self.reports = True
        index = self.vector_index(self.prepare_indexing(expr))
        lanes = LANES if is_vector(index) else ""
        mask = "1" if self._load_mask is None else str(self._load_mask)
        if lanes:
            mask = broadcast(mask, torch.bool)
        elif is_vector(mask):  # it counts if it counts for any of the lanes
            mask = f"ob_any{LANES}({mask})"
        kind = self.index_type
        end = self.scalar_index(size) if upper else f"{kind.upper()}_MAX"
        self.compute.writeline(f"ob_checked_{kind}{lanes}({index}, {end}, {mask}, ob_fault);")

    def check_divisor(self: Any, divisor: Any, dtype: torch.dtype) -> None:
        """Has the next wait raise where integers are divided by zero, as CPU does at the call."""
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

    def device_assert_async(self: Any, cond: CSEVariable, msg: str) -> None:
        word = self.assertions.setdefault(msg, assertion(len(self.assertions), msg)).name
        lanes = LANES if is_vector(cond) else ""
        self.compute.writeline(f"if (!ob_all{lanes}({cond})) *{word} = 1;")


def _named(text: str, nonnegative: bool | None) -> sympy.Symbol:
    """A text as part of an expression, which may be simplified by what is known of it."""
    return sympy.Symbol(text, integer=True, **({"nonnegative": True} if nonnegative else {}))
