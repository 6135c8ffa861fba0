"""Variables of a kernel, with types and, in the names of those with lanes, a mark."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.common import CSE, CSEVariable, IndentedBuffer
from torch._inductor.virtualized import OpsValue, V
from torch.utils._sympy.value_ranges import ValueRanges

from torch_outboard.inductor.opencl.value_types import LANES, computed_dtype, is_vector, value_type

_UNKNOWN: ValueRanges[Any] = ValueRanges.unknown()


class OpenCLCSE(CSE[CSEVariable, str]):
    """Variables with types; a mark in the name of one with lanes."""

    def generate(
        self,
        buffer: IndentedBuffer,
        expr: Any,
        *,
        bounds: ValueRanges[Any] = _UNKNOWN,
        write: bool = True,
        assignment: bool = True,
        dtype: torch.dtype | None = None,
        shape: Any = None,
    ) -> CSEVariable:
        if isinstance(expr, OpsValue):
            expr = expr.value
        if isinstance(expr, CSEVariable) or not assignment:
            return super().generate(
                buffer, expr, bounds=bounds, write=write, assignment=assignment, dtype=dtype,
                shape=shape,
            )  # fmt: skip
        text = str(expr)
        if dtype is None:
            raise NotImplementedError(f"the dtype of '{text}' in a compiled graph is not known")
        dtype = computed_dtype(dtype)
        kind = value_type(dtype)
        key = f"{dtype} {text}"  # the type of truth values is that of integers, too
        variable = self.try_get(key)
        if variable is not None:
            variable.bounds = variable.bounds.tighten(bounds)
            variable.use_count += 1
            return variable
        vector = is_vector(text)
        name = f"{self.name_prefix}{next(self.iter_buffer_ids)}{'_' + LANES if vector else ''}"
        variable = V.kernel.create_cse_var(name, bounds, dtype, shape)
        self.varname_map[name] = variable
        self.put(key, variable)
        if not V.kernel.inside_reduction:
            V.kernel.outer_variables.add(variable)
        if V.kernel.current_node:
            V.kernel.current_node.codegen_originating_info(buffer, only_once=True)
        buffer.writeline(f"const {kind}{LANES if vector else ''} {name} = {text};")
        return variable
