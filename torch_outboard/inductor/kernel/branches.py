"""Values that are computed where a condition holds, which is the same for all lanes.

Where lanes differ, all are computed and some of them taken. A row of a concatenation, say, comes
whole from one of its parts, and what the others would be may take long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch.utils._sympy.value_ranges import ValueRanges

from torch_outboard.inductor.opencl.value_types import LANES, computed_dtype, is_vector, value_type
from torch_outboard.inductor.overrides import dtype_of, operand


class Branches:
    """The part of a kernel that leaves work out."""

    def branch(self: Any, mask: Any, body: Callable[[], Any], other: Any) -> CSEVariable:
        """`body()` where a mask without lanes holds, `other` elsewhere."""
        inside = IndentedBuffer()
        checked = dict(self.checked)
        with self.swap_buffers(inside):
            result = body()
            dtype = computed_dtype(dtype_of(result))
            if not isinstance(result, CSEVariable):
                result = self.cse.generate(inside, operand(result, dtype, False), dtype=dtype)
        self.checked = checked  # what was looked at inside was so under a condition
        vector = is_vector(result)
        lanes = LANES if vector else ""
        name = f"{self.cse.name_prefix}{next(self.cse.iter_buffer_ids)}{'_' + LANES * vector}"
        otherwise = operand(other, dtype, vector)
        self.compute.writeline(f"{value_type(dtype)}{lanes} {name} = {otherwise};")
        self.compute.writeline(f"if ({mask}) {{")
        with self.compute.indent():
            self.compute.splice(inside)
            self.compute.writeline(f"{name} = {result};")
        self.compute.writeline("}")
        variable: CSEVariable = self.create_cse_var(name, ValueRanges.unknown(), dtype, None)
        self.cse.varname_map[name] = variable
        if not self.inside_reduction:
            self.outer_variables.add(variable)
        return variable
