"""Binary searches in a kernel: bucketize and searchsorted."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.virtualized import V

from torch_outboard.inductor.opencl.value_types import LANES, STORED_NAMES, is_vector, value_type
from torch_outboard.inductor.overrides import operand


class Searches:
    """The part of a kernel that searches."""

    def bucketize(
        self: Any,
        values: CSEVariable,
        boundaries: tuple[str, sympy.Expr, sympy.Expr, sympy.Expr],
        boundary_indices: Any,
        indexing_dtype: torch.dtype,
        right: bool,
        sorter: tuple[str, sympy.Expr] | None = None,
        sorter_indices: Any = None,
    ) -> CSEVariable:
        """Places of values in lines, as Inductor describes it.

        Args:
            boundaries: name of a tensor, length and stride of a line, with its storage between.
            boundary_indices: where the line of each value starts.
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
        text = f"ob_{function}_{STORED_NAMES[dtype]}_{kind}({', '.join(arguments)})"
        place: CSEVariable = self.cse.generate(self.compute, text, dtype=self.index_torch_dtype)
        if indexing_dtype == self.index_torch_dtype:
            return place
        text = operand(place, indexing_dtype, False)
        result: CSEVariable = self.cse.generate(self.compute, text, dtype=indexing_dtype)
        return result
