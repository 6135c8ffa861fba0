"""Divides the work of a kernel into units, and writes each unit as loops over lanes.

A unit is a piece of work that is not divided further: a block of results, or one result of a
reduction.

Loop-invariant statements stand before the loop. An OpenCL compiler must not move them if the loop
stores something: the stored pointer might alias what they read. Inductor knows that it does not.
Without this, AdamW computes two powers of its step count for every vector of a parameter.

Atomic additions, such as in the gradients of `gather`, `interpolate` or max pooling, add within a
row or a plane of the result. A processor that takes all units of a plane needs no atomic exchanges.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any

import sympy
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesRoot
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import CeilDiv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_outboard.inductor.kernel.indices import without_identities
from torch_outboard.inductor.kernel.loops import Loop
from torch_outboard.inductor.kernel.parameters import parameters_of
from torch_outboard.inductor.kernel.reductions import Reductions
from torch_outboard.inductor.opencl.value_types import LANES, at_lanes
from torch_outboard.inductor.target import Target
from torch_outboard.ops.functions.table import costly, functions

# Elements of x per unit, where x has over twice as many; a multiple of all vector widths.
_BLOCK = 512
_REDUCTION_BLOCKS = (128, 64, 32)
# Vectors of accumulators that fit into registers.
_COPIES = 8
# Elements that are worth a work-item of a processor: for a body of one line, and for any body.
_GRAIN = 1 << 16
_LEAST_GRAIN = 1 << 11
# Cost of adding a vector to memory, in lines of a body: with atomic exchanges, without.
_ATOMIC, _PLAIN = 100, 15
# Loop elements per work-item of a work-group that shares the loop, and the fewest work-items: those
# of a SIMD unit. Work-items with fewer elements would mostly wait for each other.
_SHARED, _SIMD = 4, 32
# Work-groups per compute unit of a GPU; with fewer of them, large work-groups are faster.
_GROUPS = 8
# Types of variables whose statements may be hoisted.
_KINDS = ("float", "double", "int", "uint", "long", "ulong")
_STATEMENT = re.compile(rf"^ *const (?:{'|'.join(_KINDS)}) (tmp\d+) = (.*);$")
_LOAD = re.compile(r"\bob_load_\w+\((\w+), \d+\)")
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*")
_CALL = re.compile(r"^ob_(\w+)_[a-z]+$")
_READ = r"\bob_(?:masked_)?(?:stride2_|repeat._)?(?:load|gather)_\w+\({}\b"


class Units(Reductions):
    """The part of a kernel that divides its work into units."""

    def numel_source(self, tree: IterationRangesRoot) -> str:
        return numel_name(tree) if self.shares_source else self.scalar_index(tree.numel)

    def block(self) -> sympy.Expr | int:
        """Number of elements of the inner tree in a unit."""
        tree = self.inner_tree
        if tree is None or tree is not self.lane_tree:
            return 1
        if self.features.is_reduction():
            return self._reduction_block(tree)
        if (
            isinstance(tree.numel, sympy.Integer)
            and tree.numel <= 2 * _BLOCK
            and not self.shares_source
        ):
            return int(tree.numel)
        return _BLOCK

    def _reduction_block(self, tree: IterationRangesRoot) -> int:
        """The largest block that leaves two units per processor: it reads memory in longer runs."""
        others = [t.numel for t in self._pointwise_trees() if t is not tree]
        for block in _REDUCTION_BLOCKS:
            units = sympy_product([CeilDiv(tree.numel, block), *others])
            if isinstance(units, sympy.Integer) and units >= 2 * self.target.processors:
                return block
        return _REDUCTION_BLOCKS[-1]

    def units(self) -> sympy.Expr:
        """Number of units."""
        result: sympy.Expr = sympy.S.One
        for tree in self.range_trees:
            if not tree.is_reduction:
                size = CeilDiv(tree.numel, self.block()) if tree is self.inner_tree else tree.numel
                result = result * size
        return result

    def _write_units(self, code: IndentedBuffer) -> None:
        kind, body = self.index_type, IndentedBuffer()
        before = self.write_unit(body)  # registers the local memory that it needs
        units = self.scalar_index(V.graph.sizevars.simplify(self.units()))
        code.writeline(f"const {kind} units = {units};")
        if self.target.group == 1:
            owned = self.owned_units() or 1
            const = "const " if owned == 1 else ""
            code.writeline(
                f"{const}{kind} part = (units + ({kind})get_global_size(0) - 1) /"
                f" ({kind})get_global_size(0);"
            )
            if owned > 1:
                code.writeline(f"part = (part + {owned - 1}) / {owned} * {owned};")
            code.writeline(f"const {kind} first = ({kind})get_global_id(0) * part;")
            code.splice(before)
            code.writeline(
                f"for ({kind} unit = first; unit < units && unit < first + part; ++unit) {{"
            )
        elif self.grouped:
            code.writelines(self.scratch_lines())
            code.writeline(
                f"for ({kind} unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {{"
            )
        else:
            code.writeline(f"const {kind} unit = get_global_id(0);")
            code.writeline("if (unit < units) {")
        with code.indent():
            code.splice(body)
        code.writeline("}")

    def write_unit(self, code: IndentedBuffer) -> str:
        """Writes the statements of one unit; returns the statements hoisted before all units."""
        kind, rest = self.index_type, "unit"
        trees = self._pointwise_trees()
        for tree in reversed(trees):
            if tree is self.inner_tree:
                blocks, block = self._blocks_source(tree), self.block()
                start = f"({rest} % ({blocks}))" if rest != "unit" or len(trees) > 1 else rest
                name = "start" if tree is self.lane_tree else tree.index_sym().name
                times = f" * {block}" if block != 1 else ""
                code.writeline(f"const {kind} {name} = {start}{times};")
                rest = f"({rest} / ({blocks}))"
            else:
                size = self.numel_source(tree)
                code.writeline(f"const {kind} {tree.index_sym().name} = {rest} % ({size});")
                rest = f"({rest} / ({size}))"
        body = IndentedBuffer()
        self._write_lanes(body)
        before, source = "", body.getvalue()
        if self.target.group == 1:
            parameters = parameters_of(self)
            pointers = {p.name: p.argument for p in parameters if p.is_pointer}
            numbers = [p.name for p in parameters if not p.is_pointer]
            before, source = hoist(source, pointers, numbers)
        code.splice(source)
        return before

    def _blocks_source(self, tree: IterationRangesRoot) -> str:
        """Source of the number of blocks of the inner tree."""
        block = self.block()
        if self.shares_source:
            return f"({numel_name(tree)} + {block - 1}) / {block}"
        return self.scalar_index(V.graph.sizevars.simplify(CeilDiv(tree.numel, block)))

    def _pointwise_trees(self) -> list[IterationRangesRoot]:
        """Range trees of results, the inner one last."""
        trees = [tree for tree in self.range_trees if not tree.is_reduction]
        return sorted(trees, key=lambda tree: tree is self.inner_tree)

    def _write_lanes(self, code: IndentedBuffer) -> None:
        tree = self.lane_tree
        source = self.body_source()
        if tree is None or tree.is_reduction:
            # Loops over reductions are already rendered with their lanes.
            code.splice(at_lanes(source, 1))
            return
        kind, index = self.index_type, tree.index_sym().name
        size, block = self.numel_source(tree), self.block()
        code.writeline(f"const {kind} size = {size};")
        code.writeline(f"const {kind} end = size - start < {block} ? size : start + {block};")
        code.writeline(f"{kind} {index} = start;")
        iota = f"const {kind}{LANES} {index}_{LANES} = {index} + ob_iota_{kind}{LANES};"
        copies = self.copies()
        if copies > 1:
            step = copies * self.lanes
            code.writeline(f"for (; end - {index} >= {step}; {index} += {step}) {{")
            with code.indent():
                code.writeline(f"const {kind} base = {index};")
                loop, after = self.segments[0], self.segments[1:]
                code.splice(at_lanes(loop.copied(copies, iota, after), self.lanes))
            code.writeline("}")
        for lanes in (self.lanes, 1):
            code.writeline(f"for (; end - {index} >= {lanes}; {index} += {lanes}) {{")
            with code.indent():
                code.splice(at_lanes(f"{iota}\n{source}", lanes))
            code.writeline("}")

    def body_source(self) -> str:
        """Statements for a unit, or for each vector of it, with marks of lanes."""
        body = IndentedBuffer()
        body.splice(self.indexing_code)
        for segment in self.segments:
            if isinstance(segment, IndentedBuffer):
                body.splice(segment)
            else:
                segment.write(body)
        return body.getvalue()

    def copies(self) -> int:
        """Number of vectors of results that share one loop over a reduction; 1 without such a loop.

        A shared loop reads memory in longer runs, and its sums do not depend on each other.
        """
        if not self.segments or len(self.segments) > 2 or type(self.segments[0]) is not Loop:
            return 1
        if len(self.segments) == 2 and isinstance(self.segments[1], Loop):
            return 1
        fitting = self.block() // self.lanes
        return max(1, min(_COPIES // max(1, self.segments[0].width()), fitting))

    def is_one_item(self) -> bool:
        """Whether one work-item, which needs no atomic exchanges, is faster than all processors."""
        if not self.added_at or self.target.group > 1 or self.owned_units() is not None:
            return False
        return bool(_PLAIN + self.lines < (_ATOMIC + self.lines) / self.target.processors)

    def owned_units(self) -> int | None:
        """Units per plane, which one work-item takes; None with fewer planes than processors."""
        if not self.added_at or self.target.group > 1:
            return None
        together = units_together(self)
        if together is None or self.units() < together * self.target.processors:
            return None
        return together

    def group_size(self) -> int:
        """Work-items per work-group: a power of two, or the device's maximum."""
        most = self.target.group
        loops = [tree.numel for tree in self.reduction_trees()]
        known = all(isinstance(size, sympy.Integer) for size in (*loops, self.units()))
        if not self.grouped or self.local_lines or not known:
            return most
        if self.units() < _GROUPS * self.target.processors:
            return most
        size = _SIMD
        while size * _SHARED < loops[-1]:
            size *= 2
        return min(size, most)

    def launch_properties(self) -> dict[str, Any]:
        return launch_properties(
            self.target, self.lines, self.grouped, self.group_size(), self.is_one_item()
        )


def numel_name(tree: IterationRangesRoot) -> str:
    """Name of the variable with the size of a loop, in shared source."""
    return f"{tree.prefix}numel"


def launch_properties(
    target: Target, lines: int, grouped: bool, group: int, one_item: bool = False
) -> dict[str, Any]:
    """GraphKernel's arguments that divide the work.

    Args:
        lines: number of lines of the body.
        grouped: whether the work-items of a work-group share each unit.
        group: work-items per work-group.
    """
    if target.group == 1:
        grain = max(_LEAST_GRAIN, _GRAIN // max(1, lines))
        limit = 1 if one_item else 4 * target.processors
        return {"cut": "chunks", "local": 1, "grain": grain, "limit": limit}
    cut = "groups" if grouped else "items"
    return {"cut": cut, "local": group, "grain": 1, "limit": 1}


def units_together(kernel: Units) -> int | None:
    """Number of consecutive units that add to memory to which no other units add.

    None if it is not known for all atomic additions.
    """
    trees = kernel._pointwise_trees()
    if kernel.features.is_reduction() or kernel.shares_source or not trees:
        return None
    if not all(isinstance(tree.numel, sympy.Integer) for tree in trees):
        return None
    planes = {(name, _plane(kernel, index)) for name, index in kernel.added_at}
    steps = {None if plane is None else plane[0] for _, plane in planes}
    # All additions are known, with the same units, and those to one buffer have the same planes.
    if len(steps) != 1 or len(planes) != len({name for name, _ in planes}):
        return None
    step = steps.pop()
    return None if step is None else _in_units(kernel, step)


def _plane(kernel: Units, index: sympy.Expr) -> tuple[int, int] | None:
    """Consecutive steps of the outer loop that add within one plane, and its size in elements."""
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
        # The outermost part of the loop, up to its end.
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


def _in_units(kernel: Units, step: int) -> int | None:
    """Number of units in `step` steps of the outer loop; None if it is not whole."""
    others = kernel._pointwise_trees()[1:]
    block = kernel.block()
    if not others:
        return step // block if step % block == 0 else None
    inner = CeilDiv(others[-1].numel, block)
    return int(step * sympy_product([*(tree.numel for tree in others[:-1]), inner]))


def hoist(source: str, pointers: dict[str, str], numbers: Collection[str]) -> tuple[str, str]:
    """Moves loop-invariant statements out of a loop, or out of several with the same statements.

    Args:
        source: one statement in a line.
        pointers: names of the pointers that it reads and writes, and their buffers.
        numbers: names of parameters that are numbers.

    Returns:
        Statements that can stand before all loops, also those over units, and the rest. Nothing is
        moved if all invariant statements are cheap.
    """
    fixed = _only_read(source, pointers)
    moved: dict[str, str] = {}
    ambiguous: set[str] = set()
    inside = 0  # depth of branches
    for line in source.splitlines():
        if inside or (line.lstrip().startswith("if (") and line.endswith("{")):
            inside += line.count("{") - line.count("}")
            continue
        if (found := _STATEMENT.match(line)) is None or found[1] in ambiguous:
            continue
        if found[1] in moved and moved[found[1]] != line.strip():
            return "", source  # a name with two values
        if _is_fixed(found[2], fixed, {*moved, *numbers}):
            moved[found[1]] = line.strip()
        else:
            ambiguous.add(found[1])
    if not any(_costs(line) for line in moved.values()):
        return "", source
    lines = {*moved.values()}
    rest = [line for line in source.splitlines() if line.strip() not in lines]
    return "\n".join(moved.values()) + "\n", "\n".join(rest) + "\n"


def _only_read(source: str, pointers: dict[str, str]) -> set[str]:
    """Pointers to buffers that no pointer writes."""
    written = {
        buffer
        for name, buffer in pointers.items()
        if len(re.findall(rf"\b{name}\b", source)) != len(re.findall(_READ.format(name), source))
    }
    return {name for name, buffer in pointers.items() if buffer not in written}


def _is_fixed(expression: str, pointers: Collection[str], known: Collection[str]) -> bool:
    """Whether an expression uses only `known` names and loads from `pointers`."""
    loads = _LOAD.findall(expression)
    if any(pointer not in pointers for pointer in loads):
        return False
    words = re.findall(r"[A-Za-z_]\w*", _NUMBER.sub(" ", _LOAD.sub(" ", expression)))
    return all(
        word in known or word in _KINDS or word.startswith(("as_", "convert_"))
        or _function(word) in functions()
        for word in words
    )  # fmt: skip


@cache
def _function(word: str) -> str:
    found = _CALL.match(word)
    return found[1] if found else ""


def _costs(statement: str) -> bool:
    return any(_function(word) in costly() for word in re.findall(r"\bob_\w+", statement))
