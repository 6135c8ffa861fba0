"""Sources of pointwise operators: functions of operands, macros, then pointwise/pointwise.cl.

The macros read and write one vector of each operand, so the kernels of pointwise.cl do not depend
on the number of operands and their dtypes.
"""

from dataclasses import dataclass
from string import Template
from typing import Any

import torch

from torch_outboard.ops.definition import kernel_source
from torch_outboard.ops.sources.scalar_functions import defines, scalar_functions, selected_call
from torch_outboard.ops.sources.value_types import (
    STORAGE_TYPES,
    convert,
    load,
    mask_to_value,
    real_dtype,
    store,
    value_dtype,
    value_to_mask,
    value_type,
    with_functions,
)

_RESULT_TYPES = {"value": "T", "mask": "M", "real": "S"}
# Loops over `count` lanes. On GPUs arrays indexed by variables would be in memory: unrolled loops.
_FOR_COUNT = {
    False: "for (uint k = 0; k < count; ++k)",
    True: '_Pragma("unroll") for (uint k = 0; k < OB_WIDTH; ++k) if (k < count)',
}
_WRITE_HEAD = (
    "static inline void ob_write$i(__global $storage *p, OB_INDEX at, OB_INDEX stride, uint count,"
    " $result result) {\n"
)
_WRITE_ONE = Template(f"""\
{_WRITE_HEAD}  const $value value = $converted;
  $store;
}}
""")
_WRITE = Template(f"""\
{_WRITE_HEAD}  const $value value = $converted;
  if (stride == 1 && count == OB_WIDTH) {{
    if (OB_ADJACENT && (size_t)(p + at) % $bytes == 0) $aligned_store;
    else $store;
  }} else {{
    $element each[OB_WIDTH];
    OB_VSTORE(value, 0, each);
    OB_FOR_COUNT(k) $store_each;
  }}
}}
""")
_READ_HEAD = (
    "static inline $operand ob_read$i(__global $storage *p, OB_INDEX at, OB_INDEX stride,"
    " uint count) {\n"
)
_READ_ONE = Template(f"""\
{_READ_HEAD}  return $converted;
}}
""")
_READ = Template(f"""\
{_READ_HEAD}  $value value;
  if (stride == 1 && count == OB_WIDTH) {{
    if (OB_ADJACENT && (size_t)(p + at) % $bytes == 0) value = $aligned_load;
    else value = $load;
  }} else if (stride == 0) {{
    value = ($value)($load_one);
  }} else {{
    $element each[OB_WIDTH];
    OB_VSTORE(($value)(1), 0, each);
    OB_FOR_COUNT(k) each[k] = $load_each;
    value = OB_VLOAD(0, each);
  }}
  return $converted;
}}
""")
_TAKE = Template("""\
static inline void ob_take$i(__global $storage *p, OB_INDEX at, __local $element *to) {
  *to = $load_one;
}
static inline $operand ob_taken$i(const __local $element *tile) {
  $element each[OB_WIDTH];
#pragma unroll
  for (uint k = 0; k < OB_WIDTH; ++k) each[k] = tile[k * (OB_TILE + 1)];
  const $value value = OB_VLOAD(0, each);
  return $converted;
}
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class PointwiseOutput:
    """An output, and the expression of its values."""

    dtype: torch.dtype
    result: str  # "value", "mask" or "real"
    expression: str
    in_place: int | None  # many calls: the input with its memory


@dataclass(frozen=True, kw_only=True, slots=True)
class PointwiseInput:
    """An input of expressions."""

    name: str
    dtype: torch.dtype
    mask: bool  # a mask instead of a value
    by_value: bool  # a kernel argument of the compute dtype, not memory
    uniform: bool  # one element, read once per work-item
    common: bool  # many calls: shared by all
    single: bool  # many calls: one element where outputs have more


@dataclass(frozen=True, kw_only=True, slots=True)
class PointwiseSource:
    """A program: one expression per output over operands of given dtypes.

    Its kernels are for contiguous operands and for any strides; or for crossed inputs, contiguous
    along another dimension than the outputs; or for contiguous operands of many calls, such as
    operators over lists.
    """

    outputs: list[PointwiseOutput]
    inputs: list[PointwiseInput]
    scalars: list[str]  # arguments of the compute dtype
    listed_scalars: list[bool]  # many calls: one value per call
    # If it holds for an element, the kernel sets its last argument, of the type `flag`, to 1. Not
    # for crossed inputs. Missing elements of a vector are 1.
    condition: str
    flag: str
    # Names and scalar expressions that a work-group computes once from uniform inputs and scalars;
    # expressions of outputs use them as scalars.
    once: list[tuple[str, str]]
    compute: torch.dtype
    wide_index: bool  # 64-bit
    crossed: bool  # only the kernel for crossed inputs; needs vectors
    calls: int  # if not 0, only the kernel for so many calls
    width: int  # elements of a vector
    elements: int  # per work-item; for many calls those of each of `parts` consecutive groups
    parts: int
    adjacent: bool  # adjacent work-items read adjacent vectors
    dimensions: int  # most dimensions of the kernel for any strides
    tile: int  # elements of a tile along each dimension


def pointwise(**fields: Any) -> str:
    """The program source of the kernels `contiguous` and `strided`, of `crossed`, or of `many`."""
    return with_functions(_Program(PointwiseSource(**fields)).program())


class _Program:
    def __init__(self, source: PointwiseSource) -> None:
        self.source = source
        self.lanes = source.width
        self.outputs = list(enumerate(source.outputs))
        self.inputs = list(enumerate(source.inputs))
        # Index of the pointer of each input in memory; pointers of outputs come first.
        pointers = [i for i, x in self.inputs if not x.by_value]
        self.pointer_of = {i: len(source.outputs) + k for k, i in enumerate(pointers)}
        # Inputs that each work-item reads element by element.
        self.reads = [(i, x) for i, x in self.inputs if not (x.by_value or x.uniform)]

    def program(self) -> str:
        source = self.source
        expressions = "\n".join([*(x.expression for x in source.outputs), source.condition])
        head = defines(
            {
                "OB_INDEX": "ulong" if source.wide_index else "uint",
                "OB_ADJACENT": int(source.adjacent),
                "OB_CHUNK": source.elements,
                "OB_PARTS": source.parts,
                "OB_TILE": source.tile,
                "OB_DIMENSIONS": source.dimensions,
                "OB_CROSSED": int(source.crossed),
                "OB_CALLS": source.calls,
            }
        )
        if self.lanes > 1:
            head += defines(
                {
                    "OB_VLOAD": f"vload{self.lanes}",
                    "OB_VSTORE": f"vstore{self.lanes}",
                    "OB_FOR_COUNT(k)": _FOR_COUNT[source.adjacent],
                }
            )
        head += scalar_functions(source.compute, self.lanes, expressions)
        macros = self.parameters() + self.beginning() + self.elements()
        return head + self.functions() + macros + kernel_source("pointwise")

    # ---- Functions

    def functions(self) -> str:
        """Functions of results, loads and stores."""
        source = self.source
        given = [f"{'M' if x.mask else 'T'} {x.name}" for _, x in self.inputs]
        given += [f"T {name}" for name in source.scalars]
        given += [f"T {name}" for name, _ in source.once]
        uniform = [f"S {x.name}" for _, x in self.inputs if x.uniform]
        uniform += [f"S {name}" for name in source.scalars]
        parameters = ", ".join(given)
        functions = ""
        for i, output in self.outputs:
            functions += (
                f"static inline {_RESULT_TYPES[output.result]} ob_result{i}({parameters}) {{"
                f" return {output.expression}; }}\n"
            )
        for i, (_, expression) in enumerate(source.once):
            functions += (
                f"static inline S ob_once{i}({', '.join(uniform)}) {{ return {expression}; }}\n"
            )
        if source.condition:
            functions += (
                f"static inline M ob_condition({parameters}) {{ return {source.condition}; }}\n"
            )
        functions += "".join(self.write(i, x) for i, x in self.outputs)
        return functions + "".join(self.read(i, x) for i, x in self.reads)

    def write(self, i: int, output: PointwiseOutput) -> str:
        dtype, stored = output.dtype, value_dtype(output.dtype)
        return (_WRITE if self.lanes > 1 else _WRITE_ONE).substitute(
            i=i,
            storage=STORAGE_TYPES[dtype],
            result=_RESULT_TYPES[output.result],
            value=value_type(stored, self.lanes),
            element=value_type(stored),
            converted=self.converted(output),
            bytes=dtype.itemsize * self.lanes,
            store=store(dtype, self.lanes, "p", "at", "value"),
            aligned_store=store(dtype, self.lanes, "p", "at", "value", aligned=True),
            store_each=store(dtype, 1, "p", "(at + k * stride)", "each[k]"),
        )

    def converted(self, output: PointwiseOutput) -> str:
        """Conversion of a result to the stored value."""
        compute, stored = self.source.compute, value_dtype(output.dtype)
        if output.result == "mask":
            return mask_to_value(compute, stored, self.lanes, "result")
        if output.result == "real":
            return convert(real_dtype(compute), stored, self.lanes, "result")
        if compute == stored == torch.bool:
            compute = torch.uint8  # arithmetic on bool can give any number
        return convert(compute, stored, self.lanes, "result")

    def read(self, i: int, given: PointwiseInput) -> str:
        dtype, loaded = given.dtype, value_dtype(given.dtype)
        one = load(dtype, 1, "p", "at")
        marks = {
            "i": i,
            "storage": STORAGE_TYPES[dtype],
            "operand": "M" if given.mask else "T",
            "value": value_type(loaded, self.lanes),
            "element": value_type(loaded),
            "bytes": dtype.itemsize * self.lanes,
            "load": load(dtype, self.lanes, "p", "at"),
            "aligned_load": load(dtype, self.lanes, "p", "at", aligned=True),
            "load_one": one,
            "load_each": load(dtype, 1, "p", "(at + k * stride)"),
            "converted": self.operand(given, self.lanes, "value" if self.lanes > 1 else one),
        }
        function = (_READ if self.lanes > 1 else _READ_ONE).substitute(marks)
        return function + _TAKE.substitute(marks) if self.source.crossed else function

    def operand(self, given: PointwiseInput, lanes: int, value: str) -> str:
        """Conversion of a loaded value to the operand of the expression."""
        loaded, compute = value_dtype(given.dtype), self.source.compute
        if given.mask:
            return value_to_mask(loaded, compute, lanes, value)
        return convert(loaded, compute, lanes, value)

    # ---- Macros

    def parameters(self) -> str:
        """OB_PARAMETERS and OB_FLAG_PARAMETER; launches pass arguments in this order."""
        source = self.source
        flag = f", OB_POINTER({source.flag}, ob_flag)" if source.condition else ""
        if source.calls:
            return self.call_parameters() + defines({"OB_FLAG_PARAMETER": flag})
        parameters = [f"OB_POINTER({STORAGE_TYPES[x.dtype]}, out{i})" for i, x in self.outputs]
        for i, x in self.inputs:
            if x.by_value:
                parameters.append(f"{value_type(value_dtype(x.dtype))} in{i}")
            else:
                parameters.append(f"OB_POINTER({STORAGE_TYPES[x.dtype]}, in{i})")
        element = value_type(source.compute)
        parameters += [f"{element} scalar{i}" for i in range(len(source.scalars))]
        return defines({"OB_PARAMETERS": ", ".join(parameters), "OB_FLAG_PARAMETER": flag})

    def call_parameters(self) -> str:
        """OB_PARAMETERS of merged launches: arguments per call precede common arguments."""
        source, calls = self.source, range(self.source.calls)
        listed = [
            (f"out{i}", STORAGE_TYPES[x.dtype]) for i, x in self.outputs if x.in_place is None
        ]
        common: list[tuple[str, str]] = []
        values: list[tuple[str, str]] = []
        numbers: list[tuple[str, str]] = []
        for i, x in self.inputs:
            if x.by_value:
                kind = numbers if x.common else values
                kind.append((f"in{i}", value_type(value_dtype(x.dtype))))
            else:
                (common if x.common else listed).append((f"in{i}", STORAGE_TYPES[x.dtype]))
        for i, is_listed in enumerate(source.listed_scalars):
            (values if is_listed else numbers).append((f"scalar{i}", value_type(source.compute)))

        def chosen(call: int) -> str:
            pointers = (
                f"OB_BIND({storage}, {name}_{call}) {name} = {name}_{call};"
                for name, storage in listed
            )
            return " ".join([*pointers, *(f"{x} = {x}_values.of[{call}];" for x, _ in values)])

        parameters = [
            f"OB_POINTER({storage}, {name}_{call})" for call in calls for name, storage in listed
        ]
        parameters += [f"OB_POINTER({storage}, {name})" for name, storage in common]
        parameters += [f"ob_{name}_values {name}_values" for name, _ in values]
        parameters += [f"{element} {name}" for name, element in numbers]
        binds = [f"OB_BIND({storage}, {name})" for name, storage in common]
        binds += [f"__global {storage} *{name};" for name, storage in listed]
        binds += [f"{element} {name};" for name, element in values]
        in_place = [
            f"__global {STORAGE_TYPES[x.dtype]} *out{i} = in{x.in_place};"
            for i, x in self.outputs
            if x.in_place is not None
        ]
        structs = "".join(
            f"typedef struct {{ {element} of[{source.calls}]; }} ob_{name}_values;\n"
            for name, element in values
        )
        macros: dict[str, str | int] = {
            "OB_PARAMETERS": ", ".join([*parameters, "ob_calls calls"]),
            "OB_BIND_CALLS": " ".join(binds),
            "OB_BIND_IN_PLACE": " ".join(in_place),
        }
        return selected_call(source.calls, chosen) + structs + defines(macros)

    def beginning(self) -> str:
        """OB_BEGIN: pointers, operands by value, uniform operands and scalars."""
        source = self.source
        lines = []
        if not source.calls:
            lines += [f"OB_BIND({STORAGE_TYPES[x.dtype]}, out{i})" for i, x in self.outputs]
        for i, x in self.inputs:
            if x.by_value:
                passed = f"in{i}"
                if x.mask:
                    passed += " ? -1 : 0" if self.lanes > 1 else " != 0"
                operand = "M" if x.mask else "T"
                lines.append(f"const {operand} x{i} = ({operand})({passed});")
            elif not source.calls:
                lines.append(f"OB_BIND({STORAGE_TYPES[x.dtype]}, in{i})")
        if source.condition:
            lines.append(f"OB_BIND({source.flag}, ob_flag) M ob_found = 0;")
        for i, x in self.inputs:
            if x.uniform:
                one = self.operand(x, 1, load(x.dtype, 1, f"in{i}", "0"))
                lines.append(f"const S u{i} = {f'in{i}' if x.by_value else one};")
                if not x.by_value:
                    lines.append(f"const T x{i} = (T)(u{i});")
        lines += [f"const T s{i} = (T)(scalar{i});" for i in range(len(source.scalars))]
        return defines({"OB_BEGIN": " ".join([*lines, *self.once()])})

    def once(self) -> list[str]:
        """Statements by which one work-item computes the values of `once` for its work-group."""
        source = self.source
        if not source.once:
            return []
        given = [f"u{i}" for i, x in self.inputs if x.uniform]
        arguments = ", ".join([*given, *(f"scalar{i}" for i in range(len(source.scalars)))])
        count = range(len(source.once))
        computed = " ".join(f"once[{i}] = ob_once{i}({arguments});" for i in count)
        return [
            f"__local S once[{len(source.once)}]; if (get_local_id(0) == 0) {{ {computed} }}",
            "barrier(CLK_LOCAL_MEM_FENCE);",
            *(f"const T c{i} = (T)(once[{i}]);" for i in count),
        ]

    def elements(self) -> str:
        """OB_COMPUTE and the macros over pointers and inputs; pointwise.cl describes them."""
        statements = []
        for i, x in self.reads:
            p = self.pointer_of[i]
            at, step = ("0", "0") if x.single else (f"at({p})", f"step({p})")
            value = f"ob_read{i}(in{i}, {at}, {step}, n)"
            if self.source.crossed:
                value = f"crossed{i} ? ob_taken{i}(tile{i} + x * (OB_TILE + 1) + y) : {value}"
            statements.append(f"const {'M' if x.mask else 'T'} x{i} = {value};")
        arguments = ", ".join(self.arguments())
        if self.source.condition:
            statements.append(f"ob_found |= ob_condition({arguments});")
        for i, output in self.outputs:
            result = _RESULT_TYPES[output.result]
            statements.append(f"const {result} r{i} = ob_result{i}({arguments});")
        statements += [
            f"ob_write{i}(out{i}, at({i}), step({i}), n, r{i});" for i, _ in self.outputs
        ]
        pointers = range(len(self.outputs) + len(self.pointer_of))
        tiles = (
            f"f({i}, {self.pointer_of[i]}, {value_type(value_dtype(x.dtype))})"
            for i, x in self.reads
        )
        found = "any(ob_found)" if self.lanes > 1 else "ob_found"
        return defines(
            {
                "OB_POINTER_COUNT": len(pointers),
                "OB_FOR_POINTERS(f)": " ".join(f"f({p})" for p in pointers),
                "OB_FOR_READS(f)": " ".join(tiles),
                "OB_COMPUTE(at, step, n)": " ".join(statements),
                "OB_END": f"if ({found}) *ob_flag = 1;" if self.source.condition else "",
            }
        )

    def arguments(self) -> list[str]:
        """Arguments of the functions of results."""
        return [
            *(f"x{i}" for i, _ in self.inputs),
            *(f"s{i}" for i in range(len(self.source.scalars))),
            *(f"c{i}" for i in range(len(self.source.once))),
        ]
