"""Sorts of short lines.

A loop that sorts is two: the first computes keys, which are then put in order, and the second
computes the same again, of which the compiler keeps what is needed, and goes on with what was
sorted. On a processor each lane sorts a line of its own, on a GPU a work-group does, in local
memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import DisableReduction, EnableReduction
from torch._inductor.virtualized import V

from torch_outboard.inductor.kernel.reduction.loops import Loop
from torch_outboard.inductor.opencl.sort_texts import is_wide
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    broadcast,
    computed_dtype,
    convert,
    value_type,
)
from torch_outboard.inductor.overrides import operand

# An exchange of two elements, in lines of a body.
_EXCHANGE = 8


def sorts(node: Any) -> bool:
    """Whether a node of the scheduler sorts."""
    return isinstance(getattr(getattr(node, "node", None), "data", None), ir.Sort)


def can_be_one_kernel(nodes: Iterable[Any]) -> bool:
    """Whether nodes reduce nothing but what one sort gives, or sort nothing."""
    nodes = list(nodes)
    calls = {id(node.node.data.inner_fns) for node in nodes if sorts(node)}
    return not calls or (
        len(calls) == 1 and all(sorts(node) for node in nodes if node.is_reduction())
    )


def without_ends_of_sorts(node_schedule: list[Any]) -> list[Any]:
    """A schedule in which what needs sorted values stands in the loop that sorts.

    Inductor takes a sort for a reduction, whose result is known after its loop.
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


@dataclass
class Sort:
    """What a loop sorts.

    Attributes:
        key: of what and how, so that values and places are sorted once.
        before: loads and computations up to the keys.
        keys: statements that store those.
        stores: what else is stored before.
        arrays: names of keys and, if these are wide, of places.
        length: of a line, at most.
        results: what is known after it.
    """

    key: tuple[Any, ...]
    before: IndentedBuffer
    keys: list[str]
    stores: IndentedBuffer
    arrays: tuple[str, ...]
    length: int
    results: tuple[CSEVariable, ...] = ()


class Sorts:
    """The part of a kernel that sorts."""

    def sort(
        self: Any,
        dtypes: tuple[torch.dtype, ...],
        values: tuple[CSEVariable, ...],
        stable: bool,
        descending: bool,
    ) -> tuple[CSEVariable, ...]:
        """Values in order, always stable, and where they were.

        Args:
            values: keys, and the place of each in its line.
        """
        key = (dtypes, values, descending)
        if self.sort_of_loop is not None and self.sort_of_loop.key == key:
            return self.sort_of_loop.results
        trees = [tree for tree in self.range_trees if tree.is_reduction]
        if self.sort_of_loop is not None or self._load_mask is not None or len(trees) > 1:
            raise NotImplementedError("several sorts in a loop, or masked ones, in compiled graphs")
        dtype, place_dtype = dtypes
        kind = "bool" if dtype == torch.bool else value_type(dtype)
        length = self._longest_line(trees[0].numel)
        # Local memory of kernels in one launch has names by its size.
        arrays: tuple[str, ...] = tuple(f"sort_{what}{length}" for what in ("keys", "places"))
        element = f"{LANES}[{trees[0].index_sym().name}]"
        value, place = (
            broadcast(operand(operands, to, False), to)
            for operands, to in zip(values, (computed_dtype(dtype), torch.int64), strict=True)
        )
        texts = (
            f"ob_sort_key_{kind}{LANES}({value}, {place}, {int(descending)})",
            f"ob_sort_place_{kind}{LANES}({value}, {place})",
        )
        arrays = arrays[: 2 if is_wide(kind) else 1]
        keys = [f"{name}_{element} = {text};" for name, text in zip(arrays, texts, strict=False)]
        before = IndentedBuffer()
        before.splice(self.loads)
        before.splice(self.compute)
        sort = Sort(key, before, keys, self.stores, arrays, length)
        self.loads, self.compute, self.stores = (IndentedBuffer() for _ in range(3))
        key_of, low = (f"{name}_{element}" for name in (arrays[0], arrays[-1]))
        in_order = f"ob_sorted_value_{kind}{LANES}({key_of}, {low}, {int(descending)})"
        at = convert(f"ob_sorted_place_long{LANES}({low})", torch.int64, place_dtype)
        sort.results = tuple(
            self.cse.generate(self.compute, text, dtype=of)
            for text, of in ((in_order, dtype), (at, place_dtype))
        )
        self.sort_of_loop = sort
        self.lines += len(before._lines) + _EXCHANGE * length.bit_length() ** 2 // 4
        if self.grouped:
            self.local_lines.update(dict.fromkeys(arrays, length))
        return sort.results

    def _longest_line(self: Any, numel: sympy.Expr) -> int:
        longest = V.graph.sizevars.shape_env.bound_sympy(numel).upper
        if not isinstance(longest, (int, sympy.Integer)):
            raise NotImplementedError("sorts of lines of any length in compiled graphs")
        return int(longest)


@dataclass
class SortedLoop(Loop):
    """A loop with a sort."""

    sort: Sort | None = None

    def write(self, out: IndentedBuffer) -> None:
        kernel, sort = self.kernel, self.sort
        assert sort is not None
        assert not self.accumulators
        assert not self.after._lines
        (tree,) = [tree for tree in kernel.range_trees if tree.is_reduction]
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
        call = f"ob_{network}_long{LANES}({', '.join(arrays)}, {kernel.numel_text(tree)});"
        out.writeline(call)
        self.write_turns(out, tree, f"{again}\n{self.body.getvalue()}")
        if kernel.grouped:
            out.writeline(barrier)
