"""Reductions of a kernel: what they accumulate, and how two results become one."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesRoot

from torch_outboard.inductor.kernel.reduction.loops import Accumulator, Loop, MaskAccumulator
from torch_outboard.inductor.kernel.reduction.moments import Moments, ShiftedSums, Welford
from torch_outboard.inductor.kernel.reduction.sorts import Sort, SortedLoop
from torch_outboard.inductor.opencl.fold_texts import combine
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    broadcast,
    computed_dtype,
    constant,
    mask_for,
    mask_of,
    mask_type,
    value_type,
)
from torch_outboard.inductor.overrides import operand

_KINDS = {"sum": 0, "prod": 1, "xor_sum": 0}


class Reductions:
    """The part of a kernel that reduces."""

    def start_loop(self: Any) -> None:
        self.accumulators: list[Accumulator] = []
        self.after_loop = IndentedBuffer()
        self.sort_of_loop: Sort | None = None

    def scratch(self: Any, place: int, kind: str) -> str:
        """Local memory for a value of each item."""
        return str(self.scratches.setdefault((place, kind), f"scratch_{kind}_{place}"))

    def scratch_lines(self: Any) -> list[str]:
        """Declarations, which stand outside of all blocks of a kernel."""
        return [
            f"__local {kind} {name}[{self.target.group}];"
            for (_, kind), name in self.scratches.items()
        ] + [f"__local long {name}_[{length}];" for name, length in self.local_lines.items()]

    def close_loop(self: Any) -> None:
        """Ends the loop over the reduction; what was computed in it is not known any more."""
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
        for tree in self.range_trees:
            if tree.is_reduction:
                tree.cache_clear()

    def store_reduction(self: Any, name: str, index: Any, value: CSEVariable) -> None:
        inside, stores, compute = self.inside_reduction, self.stores, self.compute
        self.inside_reduction = False
        self.stores = self.compute = self.after_loop
        try:
            self.store(name, index, value)
        finally:
            self.inside_reduction, self.stores, self.compute = inside, stores, compute

    def reduction(
        self: Any, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any
    ) -> Any:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduce(dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduce(
        self: Any, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any
    ) -> Any:
        if self._load_mask is not None:
            raise NotImplementedError("reductions under a mask in compiled graphs")
        if reduction_type in ("argmax", "argmin"):
            return self._reduce_place(dtype, src_dtype, reduction_type, value)
        if reduction_type in ("welford_reduce", "welford_combine"):
            return self._reduce_moments(dtype, reduction_type, value)
        if reduction_type in ("sum", "prod", "xor_sum", "max", "min", "any"):
            return self._reduce_values(dtype, src_dtype, reduction_type, value)
        raise NotImplementedError(f"the reduction '{reduction_type}' in compiled graphs")

    def _new_name(self: Any) -> str:
        return f"acc{next(self.accumulator_ids)}"

    def _result(self: Any, name: str, dtype: torch.dtype) -> CSEVariable:
        """What a loop leaves, as a variable."""
        tree = self.lane_tree
        folded = tree is not None and tree.is_reduction
        text = f"{name}_" if folded else f"{name}_{LANES}"
        result: CSEVariable = self.cse.generate(self.after_loop, text, dtype=dtype)
        self.outer_variables.add(result)
        return result

    def _in_lanes(self: Any, value: Any, dtype: torch.dtype) -> str:
        return broadcast(operand(value, dtype, False), dtype)

    def _reduce_values(
        self: Any, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any
    ) -> CSEVariable:
        if kind == "any":
            dtype = torch.bool
        elif kind in ("max", "min"):
            dtype = src_dtype
        dtype = computed_dtype(dtype)
        if dtype == torch.bool:
            kind = {"max": "any", "sum": "any", "min": "all", "prod": "all"}.get(kind, kind)
        name, t = self._new_name(), value_type(dtype)
        text = self._in_lanes(value, dtype)
        initial = _initial(kind, dtype)
        acc = f"{name}_{LANES}"
        if kind == "any":
            update = f"({acc} | {text})"
        elif kind == "all":
            update, initial = f"({acc} & {text})", "1"
        elif kind in ("max", "min"):
            # NaN wins; what is known of the new value does not wait for the one before.
            new = self.cse.generate(self.compute, text, dtype=dtype)
            better = f"({acc} {'<' if kind == 'max' else '>'} {new})"
            if dtype.is_floating_point:
                better = f"({better} | ({new} != {new}))"
            update = f"({better} ? {new} : {acc})"
        else:
            operator = {"sum": "+", "prod": "*", "xor_sum": "^"}[kind]
            update = f"({acc} {operator} {text})"
        self.compute.writeline(f"{acc} = {update};")

        def fold(scalars: list[str], others: list[str]) -> list[str]:
            (a,), (b,) = scalars, others
            if kind in ("any", "all"):
                operator = "|" if kind == "any" else "&"
                return [f"{a} = (({a}) {operator} ({b})) != 0;"]
            return [f"{a} = {combine(f'fold_{kind}', t, a, b)};"]

        def fold_vector(lanes: int) -> list[str]:
            if kind in ("any", "all"):
                operator = "|" if kind == "any" else "&"
                return [f"{name}_ = {name}_ {operator} ({kind}({name}_{lanes}) != 0);"]
            whole = f"ob_fold_{kind}_{t}{lanes}({name}_{lanes})"
            return [f"{name}_ = {combine(f'fold_{kind}', t, f'{name}_', whole)};"]

        lanes_initial = initial
        if dtype == torch.bool and kind == "all":
            lanes_initial = "-1"
        if dtype == torch.bool:
            self.accumulators.append(
                MaskAccumulator(name, initial, lanes_initial, fold, fold_vector)
            )
        else:
            self.accumulators.append(Accumulator([(name, t, initial)], fold, fold_vector))
        return self._result(name, dtype)

    def _reduce_place(
        self: Any, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any
    ) -> CSEVariable:
        place: str | None = None
        if isinstance(value, tuple):
            value, logical = value
            place = self._in_lanes(logical, self.index_torch_dtype)
        src_dtype = computed_dtype(src_dtype)
        if src_dtype == torch.bool:
            src_dtype = torch.int32
        name, t, index = self._new_name(), value_type(src_dtype), self.index_type
        text = self._in_lanes(value, src_dtype)
        variable = self.cse.generate(self.compute, text, dtype=src_dtype)
        if place is None:
            trees = [tree for tree in self.range_trees if tree.is_reduction]
            flat = _whole(trees[0])
            for tree in trees[1:]:
                flat = flat * tree.numel + _whole(tree)
            place = broadcast(
                self.vector_index(self.prepare_indexing(flat)), self.index_torch_dtype
            )
        best, at = f"{name}_{LANES}", f"{name}_at_{LANES}"
        operator = ">" if kind == "argmax" else "<"
        better = f"({variable} {operator} {best})"
        if src_dtype.is_floating_point:
            # NaN is better than all numbers, and nothing is better than NaN.
            better = f"({better} | (({variable} != {variable}) & ({best} == {best})))"
        mask = f"{name}_better_{LANES}"
        self.compute.writeline(f"const {mask_type(src_dtype)}{LANES} {mask} = {better};")
        self.compute.writeline(f"{best} = {mask} ? {variable} : {best};")
        chosen = mask_for(mask_of(mask, src_dtype, True), self.index_torch_dtype, True)
        self.compute.writeline(f"{at} = {chosen} ? {place} : {at};")

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
        # Where nothing is better than the worst value of all, the first one is it.
        found.finish = [f"{at} = {at} < 0 ? 0 : {at};"]
        self.accumulators.append(found)
        result = self._result(f"{name}_at", self.index_torch_dtype)
        if dtype != self.index_torch_dtype:
            text = operand(result, dtype, False)
            result = self.cse.generate(self.after_loop, text, dtype=dtype)
            self.outer_variables.add(result)
        return result

    def _reduce_moments(
        self: Any, dtype: torch.dtype, kind: str, value: Any
    ) -> tuple[CSEVariable, ...]:
        """Mean, sum of squared distances from it, and count."""
        dtype = computed_dtype(dtype)
        name, t = self._new_name(), value_type(dtype)
        if kind == "welford_reduce":
            text = self._in_lanes(value, dtype)
            variable = self.cse.generate(self.compute, text, dtype=dtype)
            # Items of a group have few values each; a loop of a processor many.
            moments = (Welford if self.grouped else ShiftedSums)(name, t)
            self.compute.writelines(moments.add(str(variable)))
        else:
            texts = [self._in_lanes(part, dtype) for part in value]
            parts = [str(self.cse.generate(self.compute, text, dtype=dtype)) for text in texts]
            moments = Moments(name, t)
            self.compute.writelines(moments.combine(*parts))
        self.accumulators.append(moments.accumulator())
        return tuple(self._result(part, dtype) for part in moments.names)


def _whole(tree: IterationRangesRoot) -> sympy.Symbol:
    """The index of a tree of ranges that is not split."""
    return tree.lookup(sympy.S.One, tree.numel).symbol()


def _initial(kind: str, dtype: torch.dtype) -> str:
    """What does not change the result."""
    if kind in _KINDS:
        return constant(_KINDS[kind], dtype)
    if kind in ("any", "all"):
        return "0" if kind == "any" else "1"
    if dtype.is_floating_point:
        return constant(float("-inf") if kind == "max" else float("inf"), dtype)
    info = torch.iinfo(dtype)
    return constant(info.min if kind == "max" else info.max, dtype)
