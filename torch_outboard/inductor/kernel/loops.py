"""Loops over reductions, and their accumulators.

Where the lanes belong to the reduction, each lane has its own accumulators. They are folded into
scalar accumulators after the main loop, and the tail continues with these. On a GPU the work-items
of a work-group are folded last, in local memory.

A loop that sorts becomes two loops. The first computes keys, which are then sorted. The second
repeats the statements of the first, whose unused results the compiler removes, and continues with
the sorted values. On a processor each lane sorts one line; on a GPU a work-group sorts one line in
local memory.

Long reductions with few results are split into parts. Inductor chooses numbers of parts for GPUs: a
part may begin at any index, and the last one is shorter, so that all loads have conditions. On a
processor a vector across two cache lines takes two reads. Its parts should be long, and yet short
enough for sums in single precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import DisableReduction, EnableReduction

from torch_outboard.inductor.opencl.value_types import LANES, at_lanes

# Elements: reductions longer than _LEAST are split; a part has at most _MOST.
_LEAST, _MOST = 1 << 13, 1 << 17
# Parts per processor, to balance their load.
_PARTS = 4
# Elements of 4 bytes, the most frequent size, in a cache line of 64 bytes.
_LINE = 64 // 4
# Numbers of parts that are tried beyond the first, to find one that fits.
_TRIED = 64


@dataclass
class Accumulator:
    """Variables that live as long as a loop.

    Attributes:
        variables: name without suffix, type, initial value.
        fold: given names of the scalar variables and of other scalars, statements that combine the
            latter into the former.
        fold_vector: statements that fold a whole vector, where lane by lane would be longer.
        inner: more variables, which `finish` combines into `variables` after the loop.
        finish: the statements, with marks of lanes.
    """

    variables: list[tuple[str, str, str]]
    fold: Callable[[list[str], list[str]], list[str]]
    fold_vector: Callable[[int], list[str]] | None = None
    inner: list[tuple[str, str, str]] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)

    def declarations(self) -> list[str]:
        """Declarations, with marks of lanes."""
        lines = [f"{kind}{LANES} {name}_{LANES} = {start};" for name, kind, start in self.variables]
        return lines + [f"{kind} {name}_{LANES} = {start};" for name, kind, start in self.inner]

    def names(self) -> list[str]:
        return [name for name, _, _ in (*self.variables, *self.inner)]


@dataclass
class Loop:
    """A loop over a reduction; written once the needed buffers are known."""

    kernel: Any
    indexing: IndentedBuffer
    body: IndentedBuffer
    after: IndentedBuffer
    accumulators: list[Accumulator] = field(default_factory=list)

    def write(self, out: IndentedBuffer) -> None:
        kernel = self.kernel
        folded, lanes = self._folded(), self._lanes()
        for accumulator in self.accumulators:
            for line in accumulator.declarations():
                for source in dict.fromkeys((at_lanes(line, 1), at_lanes(line, lanes))):
                    out.writeline(source if folded else line)
        trees = kernel.reduction_trees()
        for tree in trees[:-1]:
            self._open(out, tree)
        self.write_turns(out, trees[-1], f"{self.indexing.getvalue()}\n{self.body.getvalue()}")
        for _ in trees[:-1]:
            out.writeline("}")
        if lanes > 1 and len(trees) > 1:
            self._fold_vectors(out, lanes)
        self._finish(out, 1 if folded else 0)
        if kernel.grouped:
            self._fold_group(out)
        out.splice(self.after)

    def _open(self, out: IndentedBuffer, tree: Any) -> None:
        index, kernel = tree.index_sym().name, self.kernel
        size = kernel.numel_source(tree)
        out.writeline(f"for ({kernel.index_type} {index} = 0; {index} < {size}; ++{index}) {{")

    def width(self) -> int:
        """Number of vectors that change in each iteration."""
        return sum(len(a.inner or a.variables) for a in self.accumulators)

    def copied(self, copies: int, iota: str, after: list[IndentedBuffer]) -> str:
        """The loop and its following statements, for neighbouring vectors of results."""
        kernel, out = self.kernel, IndentedBuffer()
        names = [name for accumulator in self.accumulators for name in accumulator.names()]
        pattern = re.compile(rf"\b({'|'.join(names) or '-'})_{LANES}")
        kind, x = kernel.index_type, kernel.lane_tree.index_sym().name

        def write(*parts: IndentedBuffer) -> None:
            source = "\n".join(part.getvalue() for part in parts)
            for copy in range(copies):
                out.writeline("{")
                with out.indent():
                    out.writeline(f"const {kind} {x} = base + {copy * kernel.lanes};")
                    out.splice(f"{iota}\n{kernel.indexing_code.getvalue()}")
                    out.splice(pattern.sub(rf"\1_{LANES}_copy{copy}", source))
                out.writeline("}")

        for accumulator in self.accumulators:
            for line in accumulator.declarations():
                for copy in range(copies):
                    out.writeline(pattern.sub(rf"\1_{LANES}_copy{copy}", line))
        trees = kernel.reduction_trees()
        for tree in trees:
            self._open(out, tree)
        write(self.indexing, self.body)
        for _ in trees:
            out.writeline("}")
        end = IndentedBuffer()
        self._finish(end, 0)
        write(end, self.after, *after)
        return out.getvalue()

    def _folded(self) -> bool:
        """Whether lanes belong to the reduction."""
        lane_tree = self.kernel.lane_tree
        return lane_tree is not None and bool(lane_tree.is_reduction)

    def _lanes(self) -> int:
        return int(self.kernel.lanes) if self._folded() else 1

    def write_turns(self, out: IndentedBuffer, tree: Any, source: str) -> None:
        """The inner loop, with the source of an iteration."""
        kernel, lanes = self.kernel, self._lanes()
        kind, index, size = kernel.index_type, tree.index_sym().name, kernel.numel_source(tree)
        if not self._folded():
            self._open(out, tree)
            with out.indent():
                out.splice(source)
            out.writeline("}")
            return
        iota = f"const {kind}{LANES} {index}_{LANES} = {index} + ob_iota_{kind}{LANES};\n"
        out.writeline("{")
        with out.indent():
            step = "get_local_size(0)" if kernel.grouped else "1"
            start = "get_local_id(0)" if kernel.grouped else "0"
            out.writeline(f"{kind} {index} = {start};")
            if lanes > 1:
                out.writeline(f"for (; ({size}) - {index} >= {lanes}; {index} += {lanes}) {{")
                with out.indent():
                    out.splice(at_lanes(iota + source, lanes))
                out.writeline("}")
                if len(kernel.reduction_trees()) == 1:
                    self._fold_vectors(out, lanes)
            out.writeline(f"for (; {index} < {size}; {index} += {step}) {{")
            with out.indent():
                out.splice(at_lanes(iota + source, 1))
            out.writeline("}")
        out.writeline("}")

    def _finish(self, out: IndentedBuffer, lanes: int) -> None:
        """Writes `finish` for a number of lanes; 0 leaves the marks."""
        for accumulator in self.accumulators:
            for line in accumulator.finish:
                out.writeline(at_lanes(line, lanes) if lanes else line)

    def _fold_vectors(self, out: IndentedBuffer, lanes: int) -> None:
        self._finish(out, lanes)
        for accumulator in self.accumulators:
            if accumulator.fold_vector is not None:
                out.writelines(accumulator.fold_vector(lanes))
                continue
            out.writeline("{")
            with out.indent():
                arrays = []
                for name, kind, _ in accumulator.variables:
                    arrays.append(f"{name}_each[lane]")
                    out.writeline(f"{kind} {name}_each[{lanes}];")
                    out.writeline(f"vstore{lanes}({name}_{lanes}, 0, {name}_each);")
                out.writeline(f"for (int lane = 0; lane < {lanes}; ++lane) {{")
                with out.indent():
                    scalars = [f"{name}_" for name, _, _ in accumulator.variables]
                    for line in accumulator.fold(scalars, arrays):
                        out.writeline(line)
                out.writeline("}")
            out.writeline("}")

    def _fold_group(self, out: IndentedBuffer) -> None:
        """Folds the values of all work-items in local memory; every work-item gets the result."""
        for accumulator in self.accumulators:
            scratches = {
                f"{name}_": self.kernel.scratch(slot, kind)
                for slot, (name, kind, _) in enumerate(accumulator.variables)
            }
            stores = [f"{s}[get_local_id(0)] = {name};" for name, s in scratches.items()]
            out.writelines(["barrier(CLK_LOCAL_MEM_FENCE);", *stores])
            # By halves; a work-group may have any number of work-items.
            out.writeline(
                "for (uint count = get_local_size(0), kept = (count + 1) / 2; count > 1;"
                " count = kept, kept = (kept + 1) / 2) {"
            )
            with out.indent():
                out.writeline("barrier(CLK_LOCAL_MEM_FENCE);")
                out.writeline("if (get_local_id(0) < count - kept) {")
                with out.indent():
                    others = [f"{s}[get_local_id(0) + kept]" for s in scratches.values()]
                    out.writelines([*accumulator.fold([*scratches], others), *stores])
                out.writeline("}")
            out.writeline("}")
            out.writeline("barrier(CLK_LOCAL_MEM_FENCE);")
            out.writelines([f"{name} = {s}[0];" for name, s in scratches.items()])


@dataclass
class Sort:
    """The sort of a loop.

    Attributes:
        key: dtypes, values and order, so that equal sorts are done once.
        before: loads and computations up to the keys.
        keys: statements that store the keys in `arrays`.
        stores: other stores before the sort.
        arrays: names of the arrays of keys and, if keys need 64 bits, of positions.
        length: elements of the longest line.
        results: variables with the sorted values and their positions.
    """

    key: tuple[Any, ...]
    before: IndentedBuffer
    keys: list[str]
    stores: IndentedBuffer
    arrays: tuple[str, ...]
    length: int
    results: tuple[CSEVariable, ...] = ()


@dataclass
class SortedLoop(Loop):
    """A loop with a sort."""

    sort: Sort | None = None

    def write(self, out: IndentedBuffer) -> None:
        kernel, sort = self.kernel, self.sort
        assert sort is not None
        assert not self.accumulators
        assert not self.after._lines
        (tree,) = kernel.reduction_trees()
        arrays = [f"{name}_{LANES}" for name in sort.arrays]
        barrier = "barrier(CLK_LOCAL_MEM_FENCE);"
        network = "sort_pairs" if len(sort.arrays) > 1 else "sort_keys"
        if kernel.grouped:
            network = f"group_{network}"
        else:
            arrays += [f"{name}room_{LANES}" for name in sort.arrays]
            out.writelines([f"long{LANES} {name}[{sort.length}];" for name in arrays])
        again = f"{self.indexing.getvalue()}\n{sort.before.getvalue()}"
        end = "\n".join(sort.keys)
        self.write_turns(out, tree, f"{again}\n{end}\n{sort.stores.getvalue()}")
        if kernel.grouped:
            out.writeline(barrier)
        call = f"ob_{network}_long{LANES}({', '.join(arrays)}, {kernel.numel_source(tree)});"
        out.writeline(call)
        self.write_turns(out, tree, f"{again}\n{self.body.getvalue()}")
        if kernel.grouped:
            out.writeline(barrier)


def sorts(node: Any) -> bool:
    """Whether a node of the scheduler sorts."""
    return isinstance(getattr(getattr(node, "node", None), "data", None), ir.Sort)


def can_be_one_kernel(nodes: Iterable[Any]) -> bool:
    """Whether nodes have no sort, or share one sort and have no other reduction."""
    nodes = list(nodes)
    calls = {id(node.node.data.inner_fns) for node in nodes if sorts(node)}
    return not calls or (
        len(calls) == 1 and all(sorts(node) for node in nodes if node.is_reduction())
    )


def without_ends_of_sorts(node_schedule: list[Any]) -> list[Any]:
    """A schedule in which users of sorted values stand in the loop that sorts.

    Inductor treats a sort as a reduction, and ends its loop before the users.
    """
    if not any(map(sorts, node_schedule)):
        return node_schedule
    kept: list[Any] = []
    for step in node_schedule:
        if step is EnableReduction and kept and kept[-1] is DisableReduction:
            kept.pop()
        else:
            kept.append(step)
    return kept


def parts_of_reduction(elements: int, results: int, processors: int) -> int:
    """Number of parts of a reduction of `elements` to each of `results`.

    All parts but the last have equal length: a multiple of a cache line, and a divisor of
    `elements`, if a number of parts near the wanted one allows.
    """
    if results >= 2 * processors or elements <= _LEAST:
        return 1
    enough = min(-(-_PARTS * processors // max(1, results)), elements // _LEAST)
    wanted = max(enough, -(-elements // _MOST))

    def unsuitable(parts: int) -> tuple[bool, bool, int]:
        length = -(-elements // parts)
        return length % _LINE != 0, elements % parts != 0, parts

    longest = min(2 * wanted, wanted + _TRIED, elements // _LEAST)
    return min(range(wanted, max(wanted, longest) + 1), key=unsuitable)
