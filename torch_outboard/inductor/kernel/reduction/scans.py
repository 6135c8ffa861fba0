"""Scans, such as cumsum: values of a loop, each with all before it.

Along lanes, a vector is put together in steps of 1, 2, 4 ... lanes (Hillis and Steele, 1986), and
what came before the vector is put before each of its lanes. Where lanes are results, each has its
own scan, and nothing has to be moved between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable

from torch_outboard.inductor.kernel.reduction.loops import Accumulator
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    broadcast,
    computed_dtype,
    mask_for,
    value_type,
)
from torch_outboard.inductor.overrides import operand

Values = tuple[CSEVariable, ...]


class Scans:
    """The part of a kernel that scans."""

    def scan(
        self: Any,
        dtypes: tuple[torch.dtype, ...],
        combine_fn: Callable[[Values, Values], Values],
        values: Values,
    ) -> Values:
        trees = [tree for tree in self.range_trees if tree.is_reduction]
        if self._load_mask is not None or len(trees) > 1 or self.grouped:
            raise NotImplementedError("scans under a mask in compiled graphs")
        computed = [computed_dtype(dtype) for dtype in dtypes]
        scanned = self._in_variables(values, computed)
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
        # Neighbours in a scan have one carry, which goes on from vectors to single values.
        wide = "" if along else LANES
        inner = [(carry, f"{kind}{wide}", "0") for carry, kind in zip(carries, kinds, strict=True)]
        inner.append((f"{name}_started", "int", "0"))

        def go_on(lanes: int) -> list[str]:
            return [f"{variable}_ = {variable}_{lanes};" for variable, _, _ in inner]

        self.accumulators.append(Accumulator([], lambda *_: [], go_on, inner))
        return scanned

    def _variable(self: Any, text: str, dtype: torch.dtype) -> CSEVariable:
        variable: CSEVariable = self.cse.generate(self.compute, text, dtype=dtype)
        return variable

    def _in_variables(self: Any, values: Values, dtypes: list[torch.dtype]) -> Values:
        return tuple(
            self._variable(f"({broadcast(operand(value, dtype, False), dtype)})", dtype)
            for value, dtype in zip(values, dtypes, strict=True)
        )

    def _chosen(
        self: Any, mask: str, values: Values, others: Values, dtypes: list[torch.dtype]
    ) -> Values:
        return tuple(
            self._variable(
                f"({mask_for(mask, dtype, True)} ? {_text(value, dtype)} : {other})", dtype
            )
            for value, other, dtype in zip(values, others, dtypes, strict=True)
        )


def _text(value: Any, dtype: torch.dtype) -> str:
    """In all lanes, of a variable or of what an operation gave."""
    return operand(getattr(value, "value", value), dtype, True)
