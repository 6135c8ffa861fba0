"""Reductions, scans and sorts of a kernel: their accumulators, and how two results are combined.

A scan, such as cumsum, combines each value of a loop with all values before it. Along lanes, a
vector is scanned in steps of 1, 2, 4 ... lanes (Hillis and Steele, 1986), and the result of all
vectors before it is combined into each of its lanes. Where lanes are results, each lane has its own
scan, and no value moves between lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesRoot
from torch._inductor.virtualized import V

from torch_outboard.inductor.kernel.loops import (
    Accumulator,
    Loop,
    Sort,
    SortedLoop,
)
from torch_outboard.inductor.kernel.memory import Memory
from torch_outboard.inductor.kernel.moments import Moments, ShiftedSums, Welford
from torch_outboard.inductor.opencl.algorithms import combine, is_wide
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    broadcast,
    computed_dtype,
    constant,
    convert,
    mask_for,
    mask_of,
    mask_type,
    value_type,
)
from torch_outboard.inductor.overrides import operand

Values = tuple[CSEVariable, ...]

_KINDS = {"sum": 0, "prod": 1, "xor_sum": 0}
# Cost of an exchange of two elements, in lines of a body.
_EXCHANGE = 8


class Reductions(Memory):
    """A kernel that reduces, scans and sorts."""

    def start_loop(self) -> None:
        self.accumulators: list[Accumulator] = []
        self.after_loop = IndentedBuffer()
        self.sort_of_loop: Sort | None = None

    def scratch(self, slot: int, kind: str) -> str:
        """Name of a local array with a value per work-item."""
        return str(self.scratches.setdefault((slot, kind), f"scratch_{kind}_{slot}"))

    def scratch_lines(self) -> list[str]:
        """Declarations of local memory, which stand outside of all blocks of a kernel."""
        return [
            f"__local {kind} {name}[{self.target.group}];"
            for (_, kind), name in self.scratches.items()
        ] + [f"__local long {name}_[{length}];" for name, length in self.local_lines.items()]

    def close_loop(self) -> None:
        """Ends the loop over the reduction; variables declared in it are no longer valid."""
        body = IndentedBuffer()
        for buffer in (self.loads, self.compute, self.stores):
            body.splice(buffer)
        if not body._lines and not self.after_loop._lines:
            return
        indexing = IndentedBuffer()
        indexing.splice(self.loop_indexing)
        parts = (self, indexing, body, self.after_loop, self.accumulators)
        sort = self.sort_of_loop
        self.segments.append(Loop(*parts) if sort is None else SortedLoop(*parts, sort))
        self.start_loop()
        self.loop_indexing.clear()
        self.cse.invalidate(self.outer_variables)
        for tree in self.reduction_trees():
            tree.cache_clear()

    def store_reduction(self, name: str, index: Any, value: CSEVariable) -> None:
        inside, stores, compute = self.inside_reduction, self.stores, self.compute
        self.inside_reduction = False
        self.stores = self.compute = self.after_loop
        try:
            self.store(name, index, value)
        finally:
            self.inside_reduction, self.stores, self.compute = inside, stores, compute

    def reduction(
        self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any
    ) -> Any:
        key: Any = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduce(dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduce(
        self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any
    ) -> Any:
        if self._load_mask is not None:
            raise NotImplementedError("compiled graphs do not support reductions under a mask")
        if reduction_type in ("argmax", "argmin"):
            return self._reduce_position(dtype, src_dtype, reduction_type, value)
        if reduction_type in ("welford_reduce", "welford_combine"):
            return self._reduce_moments(dtype, reduction_type, value)
        if reduction_type in ("sum", "prod", "xor_sum", "max", "min", "any"):
            return self._reduce_values(dtype, src_dtype, reduction_type, value)
        raise NotImplementedError(
            f"compiled graphs do not support the reduction '{reduction_type}'"
        )

    def _new_name(self) -> str:
        return f"acc{next(self.accumulator_ids)}"

    def _result(self, name: str, dtype: torch.dtype) -> CSEVariable:
        """Variable with the result of a loop, valid after it."""
        tree = self.lane_tree
        folded = tree is not None and tree.is_reduction
        return self._after_loop(f"{name}_" if folded else f"{name}_{LANES}", dtype)

    def _after_loop(self, source: str, dtype: torch.dtype) -> CSEVariable:
        result = self.cse.generate(self.after_loop, source, dtype=dtype)
        self.outer_variables.add(result)
        return result

    def _in_lanes(self, value: Any, dtype: torch.dtype) -> str:
        return broadcast(operand(value, dtype, False), dtype)

    def _reduce_values(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any
    ) -> CSEVariable:
        if kind == "any":
            dtype = torch.bool
        elif kind in ("max", "min"):
            dtype = src_dtype
        dtype = computed_dtype(dtype)
        if dtype == torch.bool:
            kind = {"max": "any", "sum": "any", "min": "all", "prod": "all"}.get(kind, kind)
        name, t = self._new_name(), value_type(dtype)
        source = self._in_lanes(value, dtype)
        acc = f"{name}_{LANES}"
        if kind == "any":
            update = f"({acc} | {source})"
        elif kind == "all":
            update = f"({acc} & {source})"
        elif kind in ("max", "min"):
            # NaN wins. Its test reads only the new value, so it does not wait for the accumulator.
            new = self._variable(source, dtype)
            better = f"({acc} {'<' if kind == 'max' else '>'} {new})"
            if dtype.is_floating_point:
                better = f"({better} | ({new} != {new}))"
            update = f"({better} ? {new} : {acc})"
        else:
            operator = {"sum": "+", "prod": "*", "xor_sum": "^"}[kind]
            update = f"({acc} {operator} {source})"
        self.compute.writeline(f"{acc} = {update};")

        def fold(scalars: list[str], others: list[str]) -> list[str]:
            (a,), (b,) = scalars, others
            if kind in ("any", "all"):
                operator = "|" if kind == "any" else "&"
                return [f"{a} = (({a}) {operator} ({b})) != 0;"]
            return [f"{a} = {combine(f'fold_{kind}', t, a, b)};"]

        def fold_vector(lanes: int) -> list[str]:
            function = kind if kind in ("any", "all") else f"ob_fold_{kind}_{t}{lanes}"
            return fold([f"{name}_"], [f"{function}({name}_{lanes})"])

        self.accumulators.append(Accumulator([(name, t, _initial(kind, dtype))], fold, fold_vector))
        return self._result(name, dtype)

    def _reduce_position(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any
    ) -> CSEVariable:
        position: str | None = None
        if isinstance(value, tuple):
            value, logical = value
            position = self._in_lanes(logical, self.index_torch_dtype)
        src_dtype = computed_dtype(src_dtype)
        if src_dtype == torch.bool:
            src_dtype = torch.int32
        name, t, index = self._new_name(), value_type(src_dtype), self.index_type
        variable = self._variable(self._in_lanes(value, src_dtype), src_dtype)
        if position is None:
            outer, *inner = self.reduction_trees()
            flat = _whole(outer)
            for tree in inner:
                flat = flat * tree.numel + _whole(tree)
            position = broadcast(
                self.vector_index(self.prepare_indexing(flat)), self.index_torch_dtype
            )
        best, at = f"{name}_{LANES}", f"{name}_at_{LANES}"
        operator = ">" if kind == "argmax" else "<"
        better = f"({variable} {operator} {best})"
        if src_dtype.is_floating_point:
            # NaN is better than any number; no value is better than NaN.
            better = f"({better} | (({variable} != {variable}) & ({best} == {best})))"
        mask = f"{name}_better_{LANES}"
        self.compute.writeline(f"const {mask_type(src_dtype)}{LANES} {mask} = {better};")
        self.compute.writeline(f"{best} = {mask} ? {variable} : {best};")
        chosen = mask_for(mask_of(mask, src_dtype, True), self.index_torch_dtype, True)
        self.compute.writeline(f"{at} = {chosen} ? {position} : {at};")

        def fold(scalars: list[str], others: list[str]) -> list[str]:
            (a, i), (b, k) = scalars, others
            wins = f"({b} {operator} {a} || ({b} != {b} && {a} == {a}))"
            equal = f"({b} == {a} || ({b} != {b} && {a} != {a}))"
            return [
                f"if ({k} >= 0 && ({i} < 0 || {wins} || ({equal} && {k} < {i}))) {{"
                f" {a} = {b}; {i} = {k}; }}"
            ]

        initial = _initial("max" if kind == "argmax" else "min", src_dtype)
        found = Accumulator([(name, t, initial), (f"{name}_at", index, "-1")], fold)
        # If all values equal the initial value, none is better, and the first one wins.
        found.finish = [f"{at} = {at} < 0 ? 0 : {at};"]
        self.accumulators.append(found)
        result = self._result(f"{name}_at", self.index_torch_dtype)
        if dtype != self.index_torch_dtype:
            result = self._after_loop(operand(result, dtype, False), dtype)
        return result

    def _reduce_moments(self, dtype: torch.dtype, kind: str, value: Any) -> tuple[CSEVariable, ...]:
        """Mean, sum of squared distances from it, and count."""
        dtype = computed_dtype(dtype)
        name, t = self._new_name(), value_type(dtype)
        if kind == "welford_reduce":
            variable = self._variable(self._in_lanes(value, dtype), dtype)
            # Work-items of a work-group have few values each; a loop of a processor has many.
            moments = (Welford if self.grouped else ShiftedSums)(name, t)
            self.compute.writelines(moments.add(str(variable)))
        else:
            parts = [str(self._variable(self._in_lanes(part, dtype), dtype)) for part in value]
            moments = Moments(name, t)
            self.compute.writelines(moments.combine(*parts))
        self.accumulators.append(moments.accumulator())
        return tuple(self._result(part, dtype) for part in moments.names)

    # ---- Scans

    def scan(
        self,
        dtypes: tuple[torch.dtype, ...],
        combine_fn: Callable[[Values, Values], Values],
        values: Values,
    ) -> Values:
        trees = self.reduction_trees()
        if self._load_mask is not None or len(trees) > 1 or self.grouped:
            raise NotImplementedError("compiled graphs do not support scans under a mask")
        computed = [computed_dtype(dtype) for dtype in dtypes]
        scanned = tuple(
            self._variable(self._in_lanes(value, dtype), dtype)
            for value, dtype in zip(values, computed, strict=True)
        )
        along = self.lane_tree is trees[0]
        step = 1
        while along and step < self.lanes:
            before = tuple(
                self._variable(f"ob_shift{step}_{value_type(dtype)}{LANES}({value})", dtype)
                for value, dtype in zip(scanned, computed, strict=True)
            )
            reached = f"(ob_iota_int{LANES} >= ((int{LANES})({step})))"
            scanned = self._chosen(reached, combine_fn(before, scanned), scanned, computed)
            step *= 2
        name = self._new_name()
        kinds = [value_type(dtype) for dtype in computed]
        carries = [f"{name}_carry{i}" for i in range(len(kinds))]
        carried = tuple(
            self._variable(f"(({kind}{LANES})({carry}_{LANES}))", dtype)
            for carry, kind, dtype in zip(carries, kinds, computed, strict=True)
        )
        started = f"((int{LANES})(ob_lane_mask{LANES}({name}_started_{LANES})))"
        scanned = self._chosen(started, combine_fn(carried, scanned), scanned, computed)
        for carry, value, kind in zip(carries, scanned, kinds, strict=True):
            last = f"ob_last_{kind}{LANES}({value})" if along else str(value)
            self.compute.writeline(f"{carry}_{LANES} = {last};")
        self.compute.writeline(f"{name}_started_{LANES} = 1;")
        # Lanes along the scan share one carry, which passes from the vector loop to its tail.
        wide = "" if along else LANES
        inner = [(carry, f"{kind}{wide}", "0") for carry, kind in zip(carries, kinds, strict=True)]
        inner.append((f"{name}_started", "int", "0"))

        def go_on(lanes: int) -> list[str]:
            return [f"{variable}_ = {variable}_{lanes};" for variable, _, _ in inner]

        self.accumulators.append(Accumulator([], lambda *_: [], go_on, inner))
        return scanned

    def _variable(self, source: str, dtype: torch.dtype) -> CSEVariable:
        return self.cse.generate(self.compute, source, dtype=dtype)

    def _chosen(
        self, mask: str, values: Values, others: Values, dtypes: list[torch.dtype]
    ) -> Values:
        return tuple(
            self._variable(
                f"({mask_for(mask, dtype, True)} ? {_source(value, dtype)} : {other})", dtype
            )
            for value, other, dtype in zip(values, others, dtypes, strict=True)
        )

    # ---- Sorts

    def sort(
        self,
        dtypes: tuple[torch.dtype, ...],
        values: tuple[CSEVariable, ...],
        stable: bool,
        descending: bool,
    ) -> tuple[CSEVariable, ...]:
        """Sorted values, and their positions before; every sort is stable.

        Args:
            values: keys, and the position of each in its line.
        """
        key = (dtypes, values, descending)
        if self.sort_of_loop is not None and self.sort_of_loop.key == key:
            return self.sort_of_loop.results
        trees = self.reduction_trees()
        if self.sort_of_loop is not None or self._load_mask is not None or len(trees) > 1:
            raise NotImplementedError(
                "compiled graphs do not support several or masked sorts in a loop"
            )
        dtype, position_dtype = dtypes
        kind = "bool" if dtype == torch.bool else value_type(dtype)
        length = self._longest_line(trees[0].numel)
        # Names contain the size, since kernels in one launch share local memory by name.
        names = ("keys", "positions")[: 2 if is_wide(kind) else 1]
        arrays = tuple(f"sort_{name}{length}" for name in names)
        element = f"{LANES}[{trees[0].index_sym().name}]"
        value, position = (
            self._in_lanes(operands, to)
            for operands, to in zip(values, (computed_dtype(dtype), torch.int64), strict=True)
        )
        sources = (
            f"ob_sort_key_{kind}{LANES}({value}, {position}, {int(descending)})",
            f"ob_sort_location_{kind}{LANES}({value}, {position})",
        )
        keys = [f"{name}_{element} = {key};" for name, key in zip(arrays, sources, strict=False)]
        before = IndentedBuffer()
        before.splice(self.loads)
        before.splice(self.compute)
        sort = Sort(key, before, keys, self.stores, arrays, length)
        self.loads, self.compute, self.stores = (IndentedBuffer() for _ in range(3))
        key_of, low = (f"{name}_{element}" for name in (arrays[0], arrays[-1]))
        in_order = f"ob_sorted_value_{kind}{LANES}({key_of}, {low}, {int(descending)})"
        at = convert(f"ob_sorted_location_long{LANES}({low})", torch.int64, position_dtype)
        sort.results = tuple(
            self.cse.generate(self.compute, source, dtype=of)
            for source, of in ((in_order, dtype), (at, position_dtype))
        )
        self.sort_of_loop = sort
        self.lines += len(before._lines) + _EXCHANGE * length.bit_length() ** 2 // 4
        if self.grouped:
            self.local_lines.update(dict.fromkeys(arrays, length))
        return sort.results

    def _longest_line(self, numel: sympy.Expr) -> int:
        longest = V.graph.sizevars.shape_env.bound_sympy(numel).upper
        if not isinstance(longest, (int, sympy.Integer)):
            raise NotImplementedError("compiled graphs do not support sorts of lines of any length")
        return int(longest)


def _whole(tree: IterationRangesRoot) -> sympy.Symbol:
    """The index of a range tree as a whole, not split."""
    return tree.lookup(sympy.S.One, tree.numel).symbol()


def _initial(kind: str, dtype: torch.dtype) -> str:
    """The neutral element of a reduction."""
    if kind in _KINDS:
        return constant(_KINDS[kind], dtype)
    if kind in ("any", "all"):
        # True is 1 in scalars and -1 in vectors.
        return "0" if kind == "any" else f"ob_lane_mask{LANES}(1)"
    if dtype.is_floating_point:
        return constant(float("-inf") if kind == "max" else float("inf"), dtype)
    info = torch.iinfo(dtype)
    return constant(info.min if kind == "max" else info.max, dtype)


def _source(value: Any, dtype: torch.dtype) -> str:
    """Source, in all lanes, of a variable or of an operation's result."""
    return operand(getattr(value, "value", value), dtype, True)
