"""Loads and stores of a kernel, and binary searches: bucketize and searchsorted."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine
from torch._inductor.virtualized import V

from torch_outboard.inductor.kernel.indices import Indices
from torch_outboard.inductor.kernel.parameters import is_number_of_host
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    STORED_NAMES,
    VALUE_TYPES,
    broadcast,
    is_vector,
    value_type,
)
from torch_outboard.inductor.overrides import operand


class Memory(Indices):
    """The part of a kernel for loads and stores."""

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        pointer = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if is_number_of_host(name):
            # A host scalar is passed by value.
            source = (
                f"({pointer} != 0)" if dtype == torch.bool else f"(({value_type(dtype)}){pointer})"
            )
            return self.cse.generate(self.loads, source, dtype=dtype)
        return self.load_from(pointer, dtype, self.prepare_indexing(index))

    def load_from(self, pointer: str, dtype: torch.dtype, index: sympy.Expr) -> CSEVariable:
        """Elements at an index, 0 where the mask of loads is false."""
        value_type(dtype)
        stored = STORED_NAMES[dtype]
        mask = None if self._load_mask is None else str(self._load_mask)
        buffer = self.loads if mask is None else self.compute
        stride = self.lane_stride(index)
        if stride == 0:
            source = f"ob_load_{stored}({pointer}, {self.scalar_index(index)})"
            if mask is not None and is_vector(mask):
                one = VALUE_TYPES[dtype]
                source = f"(({one}{LANES})(ob_any{LANES}({mask}) ? {source} : 0))"
                if dtype == torch.bool:
                    source = f"({source} != (int{LANES})(0))"
            elif mask is not None:
                at = self.scalar_index(index)
                source = f"ob_masked_load_{stored}({pointer}, {at}, {mask})"
        else:
            load = self._regular_load(index, stride)
            at = self.scalar_index(index) if load else str(self.lane_indices(index))
            buffer = buffer if load else self.compute
            masked, end = self._mask_argument(mask)
            source = f"ob_{masked}{load or 'gather'}_{stored}{LANES}({pointer}, {at}{end})"
        return self.cse.generate(buffer, source, dtype=dtype)

    def _regular_load(self, index: sympy.Expr, stride: Any) -> str:
        """Name of a load of elements at regular distances from the first; "" if none fits."""
        if stride in (1, 2):
            return "load" if stride == 1 else "stride2_load"
        repeats = self.lane_repeats(index) if stride is None else 0
        return f"repeat{repeats}_load" if repeats else ""

    @staticmethod
    def _mask_argument(mask: str | None) -> tuple[str, str]:
        return ("", "") if mask is None else ("masked_", f", {broadcast(mask, torch.bool)}")

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        pointer = self.args.output(name)
        dtype = V.graph.get_dtype(name)
        stored = STORED_NAMES[dtype]
        index = self.prepare_indexing(index)
        stride = self.lane_stride(index)
        vector = self.lanes_active and (
            stride != 0 or is_vector(value) or any(map(self.has_lanes, index.free_symbols))
        )
        source = operand(value, dtype, vector)
        if mode is not None and mode != "atomic_add":
            raise NotImplementedError(f"compiled graphs do not support stores of the kind '{mode}'")
        if mode == "atomic_add":
            operation = "atomic_add"
            self.added_at.append((name, index))
        else:
            operation = "store" if not vector or stride == 1 else "scatter"
        if not vector or operation == "store":
            at = self.scalar_index(index)
        else:
            at = str(self.lane_indices(index))
        line = f"ob_{operation}_{stored}{LANES if vector else ''}({pointer}, {at}, {source});"
        if self.grouped and not self.inside_reduction:
            line = f"if (get_local_id(0) == 0) {{ {line} }}"
        self.stores.writeline(DeferredLine(name, line))

    def bucketize(
        self,
        values: CSEVariable,
        boundaries: tuple[str, sympy.Expr, sympy.Expr, sympy.Expr],
        boundary_indices: Any,
        indexing_dtype: torch.dtype,
        right: bool,
        sorter: tuple[str, sympy.Expr] | None = None,
        sorter_indices: Any = None,
    ) -> CSEVariable:
        """Positions of values in sorted lines; see `OpsHandler.bucketize` of Inductor.

        Args:
            boundaries: name of a tensor, length of a line, size of the storage, stride of a line.
            boundary_indices: offset of the line of each value.
            sorter: name and stride of a tensor with the order of a line.
        """
        name, size, _, stride = boundaries
        dtype = V.graph.get_dtype(name)
        value_type(dtype)
        starts = (boundary_indices, *(() if sorter is None else (sorter_indices,)))
        vector = any(isinstance(x, CSEVariable) and is_vector(x) for x in (values, *starts))
        start, *start_of_order = (operand(x, self.index_torch_dtype, vector) for x in starts)
        arguments = [
            self.args.input(name), start, self.scalar_index(stride), self.scalar_index(size),
            operand(values, dtype, vector), str(int(right)),
        ]  # fmt: skip
        function = "search"
        if sorter is not None:
            function, self.reports = "sorted_search", True
            order, order_stride = self.args.input(sorter[0]), self.scalar_index(sorter[1])
            arguments += [order, *start_of_order, order_stride, "ob_fault"]
        kind = f"{self.index_type}{LANES if vector else ''}"
        source = f"ob_{function}_{STORED_NAMES[dtype]}_{kind}({', '.join(arguments)})"
        position = self.cse.generate(self.compute, source, dtype=self.index_torch_dtype)
        if indexing_dtype == self.index_torch_dtype:
            return position
        source = operand(position, indexing_dtype, False)
        return self.cse.generate(self.compute, source, dtype=indexing_dtype)
