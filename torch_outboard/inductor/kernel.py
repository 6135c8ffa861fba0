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
    CSE,
    CSEVariable,
    DeferredLine,
    IndentedBuffer,
    PythonPrinter,
    SizeArg,
    TensorArg,
)
from torch._inductor.codegen.simd import (
    IterationRangesEntry,
    IterationRangesRoot,
    SIMDKernel,
)
from torch._inductor.sizevars import stride_at_vec_range
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import OpsValue, V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import CeilDiv
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from torch_outboard.inductor.lanes import lanes_along_results
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.opencl.value_types import (
    LANES,
    STORED_NAMES,
    STORED_TYPES,
    VALUE_TYPES,
    at_lanes,
    broadcast,
    is_vector,
    value_type,
)
from torch_outboard.inductor.overrides import OpenCLOverrides, dtype_of, operand
from torch_outboard.inductor.reductions import Reductions
from torch_outboard.inductor.target import Target, target_of

# Elements of x that belong to one unit, where there are more of them; a multiple of all widths.
_BLOCK = 512
_REDUCTION_BLOCK = 32
# Elements that are worth a work item of a processor, for a body of one line.
_GRAIN = 1 << 16
_LEAST_GRAIN = 1 << 11

_UNKNOWN: ValueRanges[Any] = ValueRanges.unknown()


# Of parameters that are passed by value, by their letters for GraphKernel.
_SCALARS = {"f": "float", "d": "double", "i": "int", "l": "long"}


def _letter(dtype: torch.dtype) -> str:
    """How a number of the host is passed."""
    if dtype.is_floating_point:
        return "d" if dtype == torch.float64 else "f"
    return "l" if dtype.itemsize == 8 or dtype == torch.uint32 else "i"


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
        if dtype in (torch.float16, torch.bfloat16):
            dtype = torch.float32
        kind = value_type(dtype)
        key = f"{kind} {text}"
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


class OpenCLKernel(Reductions, SIMDKernel[CSEVariable]):
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
        self.reports = False
        self.checked: set[sympy.Symbol] = set()
        self.accumulator_ids = itertools.count()
        self.lines = 0
        self.start_loop()
        self.choose_lanes()

    # ---- Lanes

    def choose_lanes(self) -> None:
        """Which range tree has lanes, and how many; see the module."""
        self.lanes = self.target.lanes
        trees = [tree for tree in self.range_trees if not tree.is_reduction]
        inner: IterationRangesRoot | None = trees[-1] if trees else None
        for tree in trees:
            if tree.prefix == "x":
                inner = tree
        self.inner_tree = inner
        reductions = [tree for tree in self.range_trees if tree.is_reduction]
        known = V.graph.sizevars.statically_known_equals
        self.lane_tree: IterationRangesRoot | None = inner
        if (reductions and self.features.is_reduction()) and (
            inner is None or not lanes_along_results(self.features.node_schedule)
        ):
            self.lane_tree = reductions[-1]
        if self.lanes == 1 or (self.lane_tree is not None and known(self.lane_tree.numel, 1)):
            self.lanes = 1
        # Work items of a group share the loop over a reduction.
        self.grouped = (
            self.target.group > 1 and self.lane_tree is not None and self.lane_tree.is_reduction
        )
        if self.lanes == 1 and not (self.lane_tree is not None and self.lane_tree.is_reduction):
            self.lane_tree = None

    @property
    def lanes_active(self) -> bool:
        tree = self.lane_tree
        return tree is not None and (not tree.is_reduction or self.inside_reduction)

    def has_lanes(self, symbol: sympy.Symbol) -> bool:
        """Whether an index differs between lanes."""
        if is_vector(symbol.name):
            return True
        entry = self.range_tree_nodes.get(symbol)
        return entry is not None and self.lanes_active and entry.root is self.lane_tree

    def lane_stride(self, index: sympy.Expr) -> sympy.Expr | None:
        """How far apart neighbouring lanes are: 0 if they are not; None if that differs."""
        if not any(self.has_lanes(symbol) for symbol in index.free_symbols):
            return sympy.S.Zero
        if any(is_vector(symbol.name) for symbol in index.free_symbols):
            return None
        assert self.lane_tree is not None
        root = self.lane_tree.index_sym()
        entries = {
            symbol: entry.expr
            for symbol in index.free_symbols
            if (entry := self.range_tree_nodes.get(symbol)) is not None
            and entry.root is self.lane_tree
        }
        stride = stride_at_vec_range(sympy_subs(index, entries), root, self.lanes)
        return stride if isinstance(stride, sympy.Integer) else None

    # ---- Indices

    @property
    def index_torch_dtype(self) -> torch.dtype:
        return self.get_index_dtype_as_torch_dtype()

    @property
    def real_dtype(self) -> torch.dtype:
        return torch.float64 if self.target.float64 else torch.float32

    @property
    def index_type(self) -> str:
        return value_type(self.index_torch_dtype)

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return value_type(dtype)

    def scalar_index(self, index: sympy.Expr) -> str:
        """The index of the first lane."""
        return str(print_expression(self.rename_indexing(index)))

    def vector_index(self, index: sympy.Expr, wide: bool = False) -> str:
        """The indices of all lanes; with 64 bits if `wide`."""
        index = self.rename_indexing(index)
        replaced = {}
        for symbol in index.free_symbols:
            name = symbol.name
            if self.has_lanes(symbol):
                name = name if is_vector(name) else f"{name}_{LANES}"
                text = f"convert_long{LANES}({name})" if wide else name
            else:
                text = f"(long){name}" if wide else name
            if text != symbol.name:
                replaced[symbol] = sympy.Symbol(text, integer=True, nonnegative=True)
        return str(print_expression(sympy_subs(index, replaced)))

    def lane_indices(self, index: sympy.Expr) -> CSEVariable:
        """A variable with the indices of all lanes."""
        text = self.vector_index(index)
        if not is_vector(text):
            text = broadcast(text, self.index_torch_dtype)
        return self.cse.generate(self.compute, text, dtype=self.index_torch_dtype)

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        buffer = self.loop_indexing if entry.is_reduction else self.indexing_code
        expression = self.rename_indexing(entry.expr)
        kind = self.index_type
        buffer.writeline(f"const {kind} {entry.name} = {print_expression(expression)};")
        if entry.root is self.lane_tree:
            root = entry.root.index_sym()
            marked = sympy.Symbol(f"{root.name}_{LANES}", integer=True, nonnegative=True)
            vector = print_expression(sympy_subs(expression, {root: marked}))
            buffer.writeline(f"const {kind}{LANES} {entry.name}_{LANES} = {vector};")

    def checked_index(self, variable: CSEVariable, size: Any, check: bool) -> sympy.Symbol:
        """An index that was read. One that is out of range is reported, and 0 instead."""
        dtype = dtype_of(variable)
        if not dtype.is_signed or dtype.itemsize < 4:
            dtype = torch.int64
        vector = is_vector(variable)
        text = operand(variable, dtype, vector)
        within = variable.bounds.lower >= 0 and (
            isinstance(size, sympy.Number) and variable.bounds.upper < size
        )
        if check and not within:
            self.reports = True
            mask = "1" if self._load_mask is None else str(self._load_mask)
            vector = vector or is_vector(mask)
            lanes = LANES if vector else ""
            text = operand(variable, dtype, vector)
            mask = broadcast(mask, torch.bool) if vector else mask
            text = (
                f"ob_checked_{value_type(dtype)}{lanes}({text}, {self.scalar_index(size)}, {mask}, "
                "ob_fault)"
            )
        if dtype != self.index_torch_dtype:
            text = f"convert_{self.index_type}{LANES if is_vector(text) else ''}({text})"
        index = self.cse.generate(
            self.compute, text, bounds=variable.bounds, dtype=self.index_torch_dtype
        )
        symbol = sympy.Symbol(str(index), integer=True)
        self.checked.add(symbol)
        return symbol

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if expr in self.checked or not (lower or upper):
            return
        self.reports = True
        index = self.vector_index(self.prepare_indexing(expr))
        lanes = LANES if is_vector(index) else ""
        mask = "1" if self._load_mask is None else str(self._load_mask)
        if lanes:
            mask = broadcast(mask, torch.bool)
        end = self.scalar_index(size) if upper else "LONG_MAX"
        kind = self.index_type
        self.compute.writeline(f"ob_checked_{kind}{lanes}({index}, {end}, {mask}, ob_fault);")

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        self.reports = True
        lanes = LANES if is_vector(cond) else ""
        self.compute.writeline(f"if (!ob_all{lanes}({cond})) *ob_fault = 1;")

    # ---- Memory

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        pointer = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if V.graph.is_unspec_arg(name):
            # A scalar tensor of the host: its value is passed.
            text = (
                f"({pointer} != 0)" if dtype == torch.bool else f"(({value_type(dtype)}){pointer})"
            )
            return self.cse.generate(self.loads, text, dtype=dtype)
        return self.load_from(pointer, dtype, self.prepare_indexing(index))

    def load_from(self, pointer: str, dtype: torch.dtype, index: sympy.Expr) -> CSEVariable:
        """Elements at an index, where the mask of loads allows."""
        value_type(dtype)
        stored = STORED_NAMES[dtype]
        mask = None if self._load_mask is None else str(self._load_mask)
        buffer = self.loads if mask is None else self.compute
        stride = self.lane_stride(index)
        if stride == 0:
            text = f"ob_load_{stored}({pointer}, {self.scalar_index(index)})"
            if mask is not None and is_vector(mask):
                one = VALUE_TYPES[dtype]
                text = f"(({one}{LANES})(ob_any{LANES}({mask}) ? {text} : 0))"
                if dtype == torch.bool:
                    text = f"({text} != (int{LANES})(0))"
            elif mask is not None:
                at = self.scalar_index(index)
                text = f"ob_masked_load_{stored}({pointer}, {at}, {mask})"
        elif stride == 1:
            masked, end = self._mask_argument(mask)
            at = self.scalar_index(index)
            text = f"ob_{masked}load_{stored}{LANES}({pointer}, {at}{end})"
        else:
            masked, end = self._mask_argument(mask)
            buffer = self.compute
            at = str(self.lane_indices(index))
            text = f"ob_{masked}gather_{stored}{LANES}({pointer}, {at}{end})"
        return self.cse.generate(buffer, text, dtype=dtype)

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
        text = operand(value, dtype, vector)
        if mode is not None and mode != "atomic_add":
            raise NotImplementedError(f"stores of the kind '{mode}' in compiled graphs")
        if mode == "atomic_add":
            operation = "atomic_add"
        else:
            operation = "store" if not vector or stride == 1 else "scatter"
        if not vector or operation == "store":
            at = self.scalar_index(index)
        else:
            at = str(self.lane_indices(index))
        line = f"ob_{operation}_{stored}{LANES if vector else ''}({pointer}, {at}, {text});"
        if self.grouped and not self.inside_reduction:
            line = f"if (get_local_id(0) == 0) {{ {line} }}"
        self.stores.writeline(DeferredLine(name, line))

    # ---- The kernel as a whole

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
        body = IndentedBuffer()
        body.splice(self.indexing_code)
        for segment in self.segments:
            if isinstance(segment, IndentedBuffer):
                body.splice(segment)
            else:
                segment.write(body)
        self._write_units(code, body)
        parameters, binds = self._parameters()
        whole = IndentedBuffer()
        whole.writeline(f"__kernel void {name or 'NAME'}({', '.join(parameters)}) {{")
        with whole.indent():
            for line in binds:
                whole.writeline(line)
            whole.splice(code)
        whole.writeline("}")
        return whole.getvalue()

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

    def numel_text(self, tree: IterationRangesRoot) -> str:
        return self.scalar_index(tree.numel)

    def block(self) -> sympy.Expr | int:
        """Elements of the inner tree in a unit."""
        tree = self.inner_tree
        if tree is None or tree is not self.lane_tree:
            return 1
        if self.features.is_reduction():
            return _REDUCTION_BLOCK
        if isinstance(tree.numel, sympy.Integer) and tree.numel <= 2 * _BLOCK:
            return int(tree.numel)
        return _BLOCK

    def units(self) -> sympy.Expr:
        """Pieces of work that are not divided."""
        result: sympy.Expr = sympy.S.One
        for tree in self.range_trees:
            if not tree.is_reduction:
                size = CeilDiv(tree.numel, self.block()) if tree is self.inner_tree else tree.numel
                result = result * size
        return result

    def _write_units(self, code: IndentedBuffer, body: IndentedBuffer) -> None:
        kind = self.index_type
        units = self.scalar_index(V.graph.sizevars.simplify(self.units()))
        code.writeline(f"const {kind} units = {units};")
        if self.target.group == 1:
            code.writeline(
                f"const {kind} part = (units + ({kind})get_global_size(0) - 1) /"
                f" ({kind})get_global_size(0);"
            )
            code.writeline(f"const {kind} first = ({kind})get_global_id(0) * part;")
            code.writeline(
                f"for ({kind} unit = first; unit < units && unit < first + part; ++unit) {{"
            )
        elif self.grouped:
            self.write_scratch(code)
            code.writeline(
                f"for ({kind} unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {{"
            )
        else:
            code.writeline(f"const {kind} unit = get_global_id(0);")
            code.writeline("if (unit < units) {")
        with code.indent():
            rest = "unit"
            inner = self.inner_tree
            block = self.block()
            for tree in reversed(self._pointwise_trees()):
                if tree is inner:
                    blocks = self.scalar_index(
                        V.graph.sizevars.simplify(CeilDiv(tree.numel, block))
                    )
                    start = f"({rest} % ({blocks}))" if rest != "unit" or self._many() else rest
                    name = "start" if tree is self.lane_tree else tree.index_sym().name
                    times = f" * {block}" if block != 1 else ""
                    code.writeline(f"const {kind} {name} = {start}{times};")
                    rest = f"({rest} / ({blocks}))"
                else:
                    size = self.numel_text(tree)
                    code.writeline(f"const {kind} {tree.index_sym().name} = {rest} % ({size});")
                    rest = f"({rest} / ({size}))"
            self._write_lanes(code, body)
        code.writeline("}")

    def _pointwise_trees(self) -> list[IterationRangesRoot]:
        """Those of results, the inner one last."""
        trees = [tree for tree in self.range_trees if not tree.is_reduction]
        return sorted(trees, key=lambda tree: tree is self.inner_tree)

    def _many(self) -> bool:
        return len(self._pointwise_trees()) > 1

    def _write_lanes(self, code: IndentedBuffer, body: IndentedBuffer) -> None:
        tree = self.lane_tree
        text = body.getvalue()
        if tree is None or tree.is_reduction:
            # What has lanes in loops was rendered with them.
            code.splice(at_lanes(text, 1))
            return
        kind, index = self.index_type, tree.index_sym().name
        size, block = self.numel_text(tree), self.block()
        code.writeline(f"const {kind} size = {size};")
        code.writeline(f"const {kind} end = size - start < {block} ? size : start + {block};")
        code.writeline(f"{kind} {index} = start;")
        code.writeline(f"for (; end - {index} >= {self.lanes}; {index} += {self.lanes}) {{")
        iota = f"const {kind}{LANES} {index}_{LANES} = {index} + ob_iota_{kind}{LANES};"
        with code.indent():
            code.splice(at_lanes(f"{iota}\n{text}", self.lanes))
        code.writeline("}")
        code.writeline(f"for (; {index} < end; ++{index}) {{")
        with code.indent():
            code.splice(at_lanes(f"{iota}\n{text}", 1))
        code.writeline("}")

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

    def launch_properties(self) -> dict[str, Any]:
        """How work is cut, for GraphKernel."""
        if self.target.group == 1:
            grain = max(_LEAST_GRAIN, _GRAIN // max(1, self.lines))
            return {
                "cut": "chunks",
                "local": 1,
                "grain": grain,
                "limit": 4 * self.target.processors,
            }
        cut = "groups" if self.grouped else "items"
        return {"cut": cut, "local": self.target.group, "grain": 1, "limit": 1}

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
