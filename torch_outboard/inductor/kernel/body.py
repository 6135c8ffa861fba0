"""One kernel of a compiled graph: Inductor's loop body as a kernel in OpenCL C.

On a processor a work item takes a run of *units* and computes on vectors, each lane of which is a
value of one range tree:

- of x, the elements of the result, with a loop over a reduction inside;
- of a reduction, where memory is contiguous along it: a unit is then one x, and the lanes are put
  together at the end of the loop.

The body is generated once, with marks where the number of lanes belongs, and rendered twice: with
all lanes for the main loop, with one for its tail. On a GPU there is one lane: an item for each x,
or a work-group for each x of a reduction, whose items share its loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer, PythonPrinter, TensorArg
from torch._inductor.codegen.simd import CantSplit, SIMDKernel
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_outboard.inductor.kernel.branches import Branches
from torch_outboard.inductor.kernel.indices import Indices
from torch_outboard.inductor.kernel.memory import Memory
from torch_outboard.inductor.kernel.parameters import Parameter, parameters_of, text_of_kernel
from torch_outboard.inductor.kernel.ragged import without_guards_of_ragged_sizes
from torch_outboard.inductor.kernel.ranges import Lengths, ranges_by_place
from torch_outboard.inductor.kernel.reduction.reductions import Reductions
from torch_outboard.inductor.kernel.reduction.scans import Scans
from torch_outboard.inductor.kernel.reduction.sorts import Sorts
from torch_outboard.inductor.kernel.searches import Searches
from torch_outboard.inductor.kernel.units import Units
from torch_outboard.inductor.kernel.variables import OpenCLCSE
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.overrides import OpenCLOverrides
from torch_outboard.inductor.target import Target, target_of


class OpenCLKernel(
    Units, Indices, Memory, Branches, Reductions, Scans, Sorts, Searches, SIMDKernel[CSEVariable]
):
    """A kernel while its body is generated; see the module."""

    overrides = OpenCLOverrides
    sexpr = staticmethod(print_expression)
    kexpr = staticmethod(print_expression)
    pexpr = PythonPrinter().doprint

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        features: SIMDKernelFeatures,
        shared_text: bool = False,
        **kwargs: Any,
    ) -> None:
        """`shared_text`: for any sizes of the loops, which are variables; see combined.py."""
        super().__init__(tiling, without_guards_of_ragged_sizes(features), **kwargs)
        self.shared_text = shared_text
        self.cse = OpenCLCSE()
        self.target: Target = target_of(V.graph.get_current_device_or_throw())
        # Of values that stay known after a loop over a reduction.
        self.outer_variables: OrderedSet[CSEVariable] = OrderedSet()
        self.loop_indexing = IndentedBuffer()
        self.segments: list[Any] = []
        # Indices that were widened to 64 bits, as they were before.
        self.int32_of: dict[str, CSEVariable] = {}
        self.reports = False
        self.assertions: dict[str, Parameter] = {}  # by message
        # Buffers and places of sums whose places are read.
        self.added_at: list[tuple[str, sympy.Expr]] = []
        # Indices that were read and are within a size.
        self.checked: dict[sympy.Symbol, sympy.Expr] = {}
        self.accumulator_ids = itertools.count()
        # Local memory of a group: for a value of each item, and for lines, by name.
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
            if (ranges := ranges_by_place(groups, lengths, self.set_ranges)) is None:
                raise
            return ranges

    def codegen_body(self) -> None:
        """Closes a segment: a loop over a reduction, or what stands outside of loops."""
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
        lines = text_of_kernel(name or "NAME", parameters_of(self), code.getvalue())
        text = "\n".join(lines) + "\n"
        alone = self.is_one_item() or self.owned_units() is not None
        return text.replace("ob_atomic_add_", "ob_accumulate_") if alone else text

    def body_text(self) -> str:
        """What is done for a unit, or for each vector of it, with marks."""
        body = IndentedBuffer()
        body.splice(self.indexing_code)
        for segment in self.segments:
            if isinstance(segment, IndentedBuffer):
                body.splice(segment)
            else:
                segment.write(body)
        return body.getvalue()

    def parameters(self) -> list[Parameter]:
        return parameters_of(self)

    def cost(self) -> sympy.Expr:
        """Values that are computed."""
        return sympy_product([tree.numel for tree in self.range_trees])

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        self.ensure_sizes()
        call_kernel(name, self.parameters(), self.units(), self.cost())

    def codegen_nan_check(self) -> None:
        write_nan_checks([self])

    def ensure_sizes(self) -> None:
        """Has generated code compute the sizes that the kernel is given."""
        for symbol in self.args.sizevars:
            V.graph.wrapper_code.ensure_size_computed(symbol)


def write_nan_checks(kernels: Iterable[OpenCLKernel]) -> None:
    """Has generated code look at what a launch was given and gave, for `nan_asserts`."""
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
    """Writes the call of a kernel."""
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
