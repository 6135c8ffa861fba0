"""One kernel of a compiled graph: Inductor's loop body as a kernel in OpenCL C.

On a processor a work-item takes a run of *units* (pieces of work; see units.py) and computes on
vectors. The lanes of a vector are neighbours in one range tree:

- in x, the elements of the result; a loop over a reduction is inside;
- in a reduction, where memory is contiguous along it: a unit is then one x, and the lanes are
  folded at the end of the loop.

The body is generated once, with marks in place of the number of lanes, and rendered twice: with all
lanes for the main loop, with one for its tail. On a GPU there is one lane: each x has a work-item,
or, in a reduction, a work-group whose work-items share the loop.

The class inherits in a chain, one file per class: indices, memory, reductions, units, this one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import (
    CSE,
    CSEVariable,
    IndentedBuffer,
    PythonPrinter,
    TensorArg,
)
from torch._inductor.codegen.simd import CantSplit
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import OpsValue, V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.value_ranges import ValueRanges

from torch_outboard.inductor.dynamic_sizes import (
    Lengths,
    ranges_by_location,
    without_guards_of_ragged_sizes,
)
from torch_outboard.inductor.kernel.parameters import Parameter, parameters_of, source_of_kernel
from torch_outboard.inductor.kernel.units import Units
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.opencl.value_types import LANES, computed_dtype, is_vector, value_type
from torch_outboard.inductor.overrides import OpenCLOverrides, dtype_of, operand
from torch_outboard.inductor.target import Target, target_of

_UNKNOWN: ValueRanges[Any] = ValueRanges.unknown()


class OpenCLCSE(CSE[CSEVariable, str]):
    """Declares variables with types; the name of a vector ends in the mark of lanes."""

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
        source = str(expr)
        if dtype is None:
            raise NotImplementedError(f"the dtype of '{source}' in a compiled graph is not known")
        dtype = computed_dtype(dtype)
        kind = value_type(dtype)
        key = f"{dtype} {source}"  # masks and integers have the same type
        variable = self.try_get(key)
        if variable is not None:
            variable.bounds = variable.bounds.tighten(bounds)
            variable.use_count += 1
            return variable
        vector = is_vector(source)
        variable = self.undeclared(vector, bounds, dtype, shape)
        self.put(key, variable)
        if V.kernel.current_node:
            V.kernel.current_node.codegen_originating_info(buffer, only_once=True)
        buffer.writeline(f"const {kind}{LANES if vector else ''} {variable} = {source};")
        return variable

    def undeclared(
        self, vector: bool, bounds: ValueRanges[Any], dtype: torch.dtype, shape: Any = None
    ) -> CSEVariable:
        """A new variable, which the caller declares."""
        name = f"{self.name_prefix}{next(self.iter_buffer_ids)}{'_' + LANES if vector else ''}"
        variable = V.kernel.create_cse_var(name, bounds, dtype, shape)
        self.varname_map[name] = variable
        if not V.kernel.inside_reduction:
            V.kernel.outer_variables.add(variable)
        return variable


class OpenCLKernel(Units):
    """A kernel while its body is generated; see the module docstring."""

    overrides = OpenCLOverrides
    sexpr = staticmethod(print_expression)
    kexpr = staticmethod(print_expression)
    pexpr = PythonPrinter().doprint

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        features: SIMDKernelFeatures,
        shares_source: bool = False,
        **kwargs: Any,
    ) -> None:
        """`shares_source`: sizes of loops are variables, and kernels share source (combo.py)."""
        super().__init__(tiling, without_guards_of_ragged_sizes(features), **kwargs)
        self.shares_source = shares_source
        self.cse = OpenCLCSE()
        self.target: Target = target_of(V.graph.get_current_device_or_throw())
        # Variables that stay valid after a loop over a reduction.
        self.outer_variables: OrderedSet[CSEVariable] = OrderedSet()
        self.loop_indexing = IndentedBuffer()
        self.segments: list[Any] = []
        # The 32-bit variables of indices that were widened to 64 bits.
        self.int32_of: dict[str, CSEVariable] = {}
        self.reports = False
        self.assertions: dict[str, Parameter] = {}  # by message
        # Buffers and indices of atomic additions.
        self.added_at: list[tuple[str, sympy.Expr]] = []
        # Indices read from memory, and the size that they are checked against.
        self.checked: dict[sympy.Symbol, sympy.Expr] = {}
        self.accumulator_ids = itertools.count()
        # Local memory: arrays with a value per work-item; lengths of lines to sort, by name.
        self.scratches: dict[tuple[int, str], str] = {}
        self.local_lines: dict[str, int] = {}
        self.lines = 0
        self.start_loop()
        self.choose_lanes()

    def split_and_set_ranges(self, lengths: Lengths) -> list[list[sympy.Expr]]:
        try:
            return super().split_and_set_ranges(lengths)
        except CantSplit:
            inside = self.inside_reduction
            groups = [
                t.numel if inside or not t.is_reduction else sympy.S.One for t in self.range_trees
            ]
            if (ranges := ranges_by_location(groups, lengths, self.set_ranges)) is None:
                raise
            return ranges

    def branch(self, mask: Any, body: Callable[[], Any], other: Any) -> CSEVariable:
        """`body()` in a branch where a scalar mask is true, `other` elsewhere.

        A vector mask selects lanes after all are computed. A scalar one, such as for a row of a
        concatenation, which comes from one part only, can skip the cost of the other parts.
        """
        inside = IndentedBuffer()
        checked = dict(self.checked)
        with self.swap_buffers(inside):
            result = body()
            dtype = computed_dtype(dtype_of(result))
            if not isinstance(result, CSEVariable):
                result = self.cse.generate(inside, operand(result, dtype, False), dtype=dtype)
        self.checked = checked  # checks in the branch do not hold outside
        vector = is_vector(result)
        lanes = LANES if vector else ""
        variable = self.cse.undeclared(vector, _UNKNOWN, dtype)
        otherwise = operand(other, dtype, vector)
        self.compute.writeline(f"{value_type(dtype)}{lanes} {variable} = {otherwise};")
        self.compute.writeline(f"if ({mask}) {{")
        with self.compute.indent():
            self.compute.splice(inside)
            self.compute.writeline(f"{variable} = {result};")
        self.compute.writeline("}")
        return variable

    def codegen_body(self) -> None:
        """Closes a segment: a loop over a reduction, or statements outside of loops."""
        if self.inside_reduction:
            self.close_loop()
        else:
            segment = IndentedBuffer()
            for buffer in (self.loads, self.compute, self.stores):
                segment.splice(buffer)
            self.segments.append(segment)
        for buffer in (self.loads, self.compute, self.stores):
            self.lines += len(buffer._lines)
            buffer.clear()

    def codegen_kernel(self, name: str | None = None) -> str:
        self.codegen_body()
        code = IndentedBuffer()
        self._write_units(code)
        source = source_of_kernel(parameters_of(self), code.getvalue())
        alone = self.is_one_item() or self.owned_units() is not None
        return source.replace("ob_atomic_add_", "ob_accumulate_") if alone else source

    def parameters(self) -> list[Parameter]:
        return parameters_of(self)

    def cost(self) -> sympy.Expr:
        """Number of values that are computed, those of reductions included."""
        return sympy_product([tree.numel for tree in self.range_trees])

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        self.ensure_sizes()
        call_kernel(name, self.parameters(), self.units(), self.cost())

    def codegen_nan_check(self) -> None:
        write_nan_checks([self])

    def ensure_sizes(self) -> None:
        """Makes generated code compute the sizes that are parameters of the kernel."""
        for symbol in self.args.sizevars:
            V.graph.wrapper_code.ensure_size_computed(symbol)


def write_nan_checks(kernels: Iterable[OpenCLKernel]) -> None:
    """Writes checks of a launch's inputs and outputs, for `nan_asserts`."""
    tensors: dict[str, torch.dtype] = {}
    for kernel in kernels:
        _, calls, arguments, _ = kernel.args.python_argdefs()
        for tensor, argument in zip(calls, arguments, strict=True):
            if isinstance(argument, TensorArg) and argument.dtype.is_floating_point:
                tensors[tensor] = argument.dtype
    for tensor, dtype in tensors.items():
        values = f"{tensor}.float()" if dtype.itemsize == 1 else tensor
        V.graph.wrapper_code.writeline(
            f"assert {values}.isfinite().all().item(), 'NaN or infinity in {tensor}'"
        )


def call_kernel(
    name: str, parameters: list[Parameter], units: sympy.Expr, cost: sympy.Expr
) -> None:
    """Writes the call of a kernel: its arguments, then its number of units, then its cost."""
    arguments = [parameter.argument for parameter in parameters if parameter.argument]
    for expression in (units, cost):
        simple = V.graph.sizevars.simplify(expression)
        arguments.append(str(OpenCLKernel.pexpr(simple)))
    wrapper = V.graph.wrapper_code
    wrapper.graph_kernels.launches[name] += 1
    wrapper.generate_kernel_call(
        name,
        arguments,
        device=V.graph.get_current_device_or_throw(),
        triton=False,
        arg_types=[object] * len(arguments),
    )
