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
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import (
    CSEVariable,
    IndentedBuffer,
    PythonPrinter,
    SizeArg,
    TensorArg,
)
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.symbol import SymT, symbol_is_type

from torch_outboard.inductor.kernel.indices import Indices
from torch_outboard.inductor.kernel.memory import Memory
from torch_outboard.inductor.kernel.reductions import Reductions
from torch_outboard.inductor.kernel.scans import Scans
from torch_outboard.inductor.kernel.units import Units
from torch_outboard.inductor.kernel.variables import OpenCLCSE
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.opencl.value_types import STORED_TYPES
from torch_outboard.inductor.overrides import OpenCLOverrides
from torch_outboard.inductor.target import Target, target_of

# Of parameters that are passed by value, by their letters for GraphKernel.
_SCALARS = {"f": "float", "d": "double", "i": "int", "l": "long"}


def _letter(dtype: torch.dtype) -> str:
    """How a number of the host is passed."""
    if dtype.is_floating_point:
        return "d" if dtype == torch.float64 else "f"
    return "l" if dtype.itemsize == 8 or dtype == torch.uint32 else "i"


class OpenCLKernel(Units, Indices, Memory, Reductions, Scans, SIMDKernel[CSEVariable]):
    """A kernel while its body is generated; see the module."""

    overrides = OpenCLOverrides
    sexpr = staticmethod(print_expression)
    kexpr = staticmethod(print_expression)
    pexpr = PythonPrinter().doprint

    def __init__(self, tiling: dict[str, sympy.Expr], **kwargs: Any) -> None:
        super().__init__(tiling, **kwargs)
        self.cse = OpenCLCSE()
        self.target: Target = target_of(V.graph.get_current_device_or_throw())
        # Of values that stay known after a loop over a reduction.
        self.outer_variables: OrderedSet[CSEVariable] = OrderedSet()
        self.loop_indexing = IndentedBuffer()
        self.segments: list[Any] = []
        # Indices that were widened to 64 bits, as they were before.
        self.int32_of: dict[str, CSEVariable] = {}
        self.reports = False
        self.adds = False
        self.checked: set[sympy.Symbol] = set()
        self.accumulator_ids = itertools.count()
        self.lines = 0
        self.start_loop()
        self.choose_lanes()

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
        parameters, binds = self._parameters()
        whole = IndentedBuffer()
        whole.writeline(f"__kernel void {name or 'NAME'}({', '.join(parameters)}) {{")
        with whole.indent():
            for line in binds:
                whole.writeline(line)
            whole.splice(code)
        whole.writeline("}")
        text = whole.getvalue()
        return text.replace("ob_atomic_add_", "ob_accumulate_") if self.is_one_item() else text

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

    def _parameters(self) -> tuple[list[str], list[str]]:
        names, _, arguments, _ = self.args.python_argdefs()
        parameters, binds = [], []
        for name, argument in zip(names, arguments, strict=True):
            if isinstance(argument, TensorArg) and V.graph.is_unspec_arg(argument.buffer):
                parameters.append(f"const {_SCALARS[_letter(argument.dtype)]} {name.name}")
            elif isinstance(argument, TensorArg):
                kind = STORED_TYPES[argument.dtype]
                parameters.append(f"OB_POINTER({kind}, {name.name})")
                binds.append(f"OB_BIND({kind}, {name.name})")
            elif isinstance(argument, SizeArg):
                real = symbol_is_type(argument.expr, SymT.UNBACKED_FLOAT)
                kind = "float" if real else self.index_type
                parameters.append(f"const {kind} {name.name}")
            else:
                raise NotImplementedError("kernels of compiled graphs have no workspaces")
        if self.reports:
            parameters.append("OB_POINTER(int, ob_fault)")
            binds.append("OB_BIND(int, ob_fault)")
        return parameters, binds

    def parameter_letters(self) -> str:
        """The kinds of parameters, as GraphKernel takes them."""
        _, _, arguments, _ = self.args.python_argdefs()
        size = "i" if self.index_torch_dtype == torch.int32 else "l"
        letters = ""
        for argument in arguments:
            if isinstance(argument, TensorArg) and V.graph.is_unspec_arg(argument.buffer):
                letters += _letter(argument.dtype)
            elif isinstance(argument, TensorArg):
                letters += "t"
            else:
                real = symbol_is_type(argument.expr, SymT.UNBACKED_FLOAT)
                letters += "f" if real else size
        return letters + ("F" if self.reports else "")

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        _, call_args, _, arg_types = self.args.python_argdefs()
        for symbol in self.args.sizevars:
            wrapper.ensure_size_computed(symbol)
        simplify = V.graph.sizevars.simplify
        cost = sympy.S.One
        for tree in self.range_trees:
            cost = cost * tree.numel
        arguments = [
            f"{argument}.item()" if V.graph.is_unspec_arg(str(argument)) else str(argument)
            for argument in call_args
        ]
        for expression in (simplify(self.units()), simplify(cost)):
            arguments.append(str(self.pexpr(expression)))
            arg_types.append(int)
        wrapper.generate_kernel_call(
            name,
            arguments,
            device=V.graph.get_current_device_or_throw(),
            triton=False,
            arg_types=arg_types,
        )
