"""Operators with hand-written kernels in OpenCL C: the source, and a function that plans the
results and launches of a call (csrc/device_kernels/template/template.h runs them)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import torch

from torch_outboard.ops.definition import (
    Definition,
    Graph,
    Report,
    arguments_of,
    call_with_arguments,
    dtype_bits,
    dtype_number,
    fact,
    kernel_source,
    location_of,
    parameters_of,
    qualified,
    reported,
)
from torch_outboard.ops.symbolic import (
    Bool,
    Float,
    Int,
    Ints,
    Node,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymList,
    SymTensor,
    maximum,
    minimum,
    symbol,
    wrap,
)

__all__ = ["ANY", "Body", "Dtype", "Lines", "Plan", "lines_of", "template"]

# Parameters: a plan, and arguments of the operator by their names in the schema.
Body: TypeAlias = Callable[..., None]
# A dtype, the dtype of a tensor, a number of a dtype, such as an argument `dtype`, or "value": of
# values, float32 for half.
Dtype: TypeAlias = torch.dtype | SymTensor | SymInt | Literal["value"]
# In `accepts`: every dtype.
ANY: tuple[torch.dtype, ...] = ()


@dataclass(kw_only=True, eq=False, repr=False)
class Template(Definition):
    """Kernels in OpenCL C; docs/kernels.md describes what the fields state.

    Dictionaries have names of tensors or of parameters as keys. Numbers are nodes of the graph, but
    those of dtypes and of `groups`.
    """

    kind: ClassVar[str] = "template"
    source: str
    dtypes: int
    operands: dict[str, int] = field(default_factory=dict)
    optional: list[str] = field(default_factory=list)
    accepts: dict[str, int]
    strided: list[str]
    moves: list[str]
    compute: int  # the number of a dtype; -1: that of the tensor `compute_of`, "" for the first one
    compute_of: str
    vectors: bool
    meta: str
    resizes_silently: bool
    reports: str = ""
    report: str = ""
    # Tensors that are made: a result has a list of sizes, a temporary a number.
    results: list[str] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    strides: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    initial: dict[str, int] = field(default_factory=dict)
    like: dict[str, str] = field(default_factory=dict)
    memory_formats: dict[str, str] = field(default_factory=dict)
    starts_as: dict[str, str] = field(default_factory=dict)
    made_dtypes: dict[str, int] = field(default_factory=dict)
    # Parameters: arguments, nodes, constants; draws of random numbers.
    scalars: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    reals: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    random: int = -1
    # Launches; -1: always, and once. `reads` is read after the first `read_after` of them.
    kernels: list[str] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    when: list[int] = field(default_factory=list)
    repeat: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)  # 1: `items` are work-groups
    lanes: int = -1  # of a work-group
    reads: dict[str, str] = field(default_factory=dict)
    read_after: int = 0


def template(
    overloads: str | Sequence[str],
    kernels: str = "",
    *,
    dtypes: Iterable[torch.dtype],
    source: str = "",
    shapes_only: Sequence[str] = (),
    accepts: Mapping[str, Iterable[torch.dtype]] | None = None,
    strided: Sequence[str] = (),
    moves: Sequence[str] = (),
    compute: str | torch.dtype | None = None,
    vectors: bool = False,
    meta: str = "",
    reports: Report | None = None,
    resizes_silently: bool = False,
    alert: str = "",
    family: str = "",
) -> Callable[[Body], Template]:
    """Decorator that makes a function the definition of an operator.

    The function gets a `Plan` and arguments of the operator by their names in the schema, as
    symbols, as far as it declares them. Tensors among them are the operands of the kernels, in the
    order of the function's parameters.

    Args:
        overloads: names, those of `aten` without namespace, separated by blanks.
        kernels: files below `torch_outboard/kernels`, without folder and `.cl`, separated by
            blanks.
        source: OpenCL C in place of `kernels`, or in front of them.

    docs/kernels.md describes the other arguments.

    Raises:
        ValueError: if the function takes an argument that the operator does not have, or makes
            another number of results.
        TypeError: if the function computes with values of the wrong kind.
    """

    def define(body: Body) -> Template:
        row = Template(
            overloads=qualified(overloads),
            location=location_of(body),
            family=family,
            source=kernel_source("template")
            + source
            + "".join(map(kernel_source, kernels.split())),
            dtypes=dtype_bits(dtypes),
            accepts={
                name: dtype_bits(accepted) if accepted != ANY else -1
                for name, accepted in (accepts or {}).items()
            },
            strided=list(strided),
            moves=list(moves),
            compute=dtype_number(compute) if isinstance(compute, torch.dtype) else -1,
            compute_of=compute if isinstance(compute, str) else "",
            vectors=vectors,
            meta=meta,
            resizes_silently=resizes_silently,
            alert=alert,
            **reported(reports),
        )
        plan = Plan(row, shapes_only, parameters_of(body))
        call_with_arguments(body, row.overloads[0], plan)
        return row

    return define


class Plan:
    """The conditions, tensors and launches of a call of an operator.

    A function states conditions first, then tensors and launches. Where `read` gives the size of a
    result, launches come before that result.

    Attributes:
        processors: compute units of the device.
        matrix_units: whether the device has the instructions of matrix_units.cl.
        deterministic: whether `torch.use_deterministic_algorithms` is on.
    """

    def __init__(
        self, row: Template, shapes_only: Sequence[str], parameters: Sequence[str]
    ) -> None:
        self.processors = SymInt(fact("processors"))
        self.matrix_units = SymBool(fact("matrix_units"))
        self.deterministic = SymBool(fact("deterministic"))
        self.known = arguments_of(row.overloads[0])
        self._row = row
        self._graph = Graph(row.graph)
        self._lanes = SymInt(fact("group_lanes"))
        self._tensors: set[str] = set()
        self._operand_names: dict[Node, str] = {}
        if unknown := [name for name in shapes_only if name not in self.known]:
            raise ValueError(f"{row.location}: there is no argument '{unknown[0]}'")
        for name in parameters[1:]:
            tensor = self.known.get(name)
            if isinstance(tensor, SymTensor) and name not in shapes_only:
                self.operand(name, tensor)

    # ---- The device

    @property
    def group_lanes(self) -> SymInt:
        """Work-items per work-group in launches of work-groups; 1 on a CPU."""
        return self._lanes

    @property
    def on_processor(self) -> SymBool:
        """Whether the device is a CPU, whose work-groups have one work-item."""
        return self._lanes == 1

    def limit_lanes(self, most: Int) -> None:
        """Limits the work-items of a work-group; call it before results and launches."""
        if self._tensors - set(self._row.operands) or self._row.kernels:
            raise ValueError("limit_lanes comes before results and launches; call it first")
        self._lanes = maximum(minimum(most, self._lanes), 1)
        self._row.lanes = self._graph.add(self._lanes)

    # ---- Served calls

    def require(self, *conditions: Bool) -> None:
        """Declines calls for which one of the conditions does not hold."""
        if self._row.results or self._row.temporaries:
            raise ValueError("plan.require comes before results; call it first")
        for condition in conditions:
            node = self._flag(condition)
            if node >= 0:
                self._row.conditions.append(node)

    # ---- Tensors

    def operand(self, name: str, tensor: Symbol, *, optional: bool | None = None) -> SymTensor:
        """Makes a tensor an operand that is not a parameter, such as an element of a list.

        `optional`: whether it may be missing; default: whether it is an argument that may be None.
        """
        if not isinstance(tensor, SymTensor):
            raise TypeError(f"the operand '{name}' is not a tensor")
        if optional is None:
            optional = tensor.optional
        self._add_tensor(name)
        self._row.operands[name] = self._graph.add(tensor)
        self._operand_names.setdefault(tensor.node, name)
        if optional:
            self._row.optional.append(name)
        return tensor

    def result(
        self,
        name: str = "out",
        shape: Ints | None = None,
        dtype: Dtype | None = None,
        *,
        like: SymTensor | None = None,
        memory_format: SymTensor | None = None,
        strides: Ints | None = None,
        wanted: Bool = True,
        initial: Float | SymTensor | None = None,
    ) -> SymTensor:
        """Makes a result; call it in the order of the schema.

        Args:
            name: its name in kernels. No argument of the functional form may have the name.
            shape: default: by PyTorch's meta function, or else the shape of the first operand.
            dtype: default: by PyTorch's meta function, or else the dtype of the first operand.
            like: an operand with the same strides, as in `torch.empty_like`.
            memory_format: an operand with the same memory format: channels last, or else row-major
                order.
            strides: in elements; an empty list is row-major order.
            wanted: whether it is made; else it is an undefined tensor.
            initial: the content before the first launch: a number, or an operand.
        """
        self._add_tensor(name)
        self._row.results.append(name)
        if shape is not None:
            self._row.sizes[name] = self._list(shape)
        if strides is not None:
            self._row.strides[name] = self._list(strides)
        if (node := self._flag(wanted)) >= 0:
            self._row.wanted[name] = node
        for key, model in (("like", like), ("memory_formats", memory_format)):
            if model is not None:
                getattr(self._row, key)[name] = self._tensor_name(model)
        self._set_contents(name, dtype, initial)
        return SymTensor(fact(f"results.{name}"))

    def temporary(
        self, name: str, numel: Int, dtype: Dtype | None = None, *, initial: Float | None = None
    ) -> SymTensor:
        """Makes a temporary tensor of `numel` elements, which kernels may write and read."""
        self._add_tensor(name)
        self._row.temporaries.append(name)
        self._row.sizes[name] = self._integer(numel)
        self._set_contents(name, dtype, initial)
        return SymTensor(fact(f"temporaries.{name}"))

    # ---- Parameters and constants of kernels

    def scalars(self, *arguments: SymFloat | SymInt | SymBool) -> None:
        """Passes arguments that are numbers as parameters of type `V`."""
        for argument in arguments:
            if not isinstance(argument, Symbol) or argument.node.operation != "name":
                raise TypeError(f"{argument!r} is not an argument; plan.parameters passes values")
            self._row.scalars.append(str(argument.node.constant))

    def parameters(self, /, **values: Float | SymBool | Ints) -> None:
        """Passes values to all kernels.

        Integers and flags become parameters of type `ob_index`, with 64 bits where a tensor or a
        number needs more than 32; reals of type `R`; lists of up to 16 integers of type `ob_list`.
        """
        for name, value in values.items():
            known = symbol(value)
            if isinstance(known, SymList) and known._element is not SymFloat:
                kind = "lists"
            elif isinstance(known, SymFloat):
                kind = "reals"
            elif isinstance(known, (SymInt, SymBool)):
                kind = "numbers"
            else:
                raise TypeError(
                    f"the parameter '{name}' is neither a number nor a list of integers"
                )
            self._set(kind, name, known)

    def constants(self, /, **values: Int | SymBool) -> None:
        """Defines integers and flags as macros: each combination of values is its own program.

        `OB_REGISTERS` is the most registers of a work-item, for drivers that can limit them.
        """
        for name, value in values.items():
            if not isinstance(symbol(value), (SymInt, SymBool)):
                raise TypeError(f"the constant '{name}' is neither an integer nor a flag")
            self._set("constants", name, symbol(value))

    def random(self, draws: Int) -> None:
        """Reserves `draws` random draws, and passes `ob_seed` and `ob_offset` to kernels."""
        self._row.random = self._integer(draws)

    # ---- Launches

    def launch(
        self,
        kernel: str,
        items: Int | None = None,
        *,
        groups: Int | None = None,
        when: Bool = True,
        repeat: Int = 1,
    ) -> None:
        """Launches a kernel.

        Args:
            kernel: its name in the source.
            items: the number of work-items.
            groups: instead of `items`, the number of work-groups; the kernel loops over them with
                OB_FOR_GROUPS. A work-group has 256 work-items on a GPU and one on a CPU.
            when: whether it is launched.
            repeat: the number of launches; kernels get its index as `ob_step`.
        """
        count = items if groups is None else groups
        if count is None or (items is not None and groups is not None):
            raise TypeError(f"the launch of '{kernel}' takes one of items= and groups=")
        self._row.kernels.append(kernel)
        self._row.items.append(self._integer(count))
        self._row.when.append(self._flag(when))
        once = isinstance(repeat, int) and repeat == 1
        self._row.repeat.append(-1 if once else self._integer(repeat))
        self._row.groups.append(int(groups is not None))

    def read(self, temporary: SymTensor) -> SymInt:
        """Waits for the launches so far and reads the first element of a temporary.

        Results are made only afterwards; one copy reads all values.
        """
        launched = len(self._row.kernels)
        if self._row.reads and self._row.read_after != launched:
            raise ValueError(
                "plan.read was called after different launches; read all values together"
            )
        name = self._tensor_name(temporary)
        if name not in self._row.temporaries:
            raise ValueError(f"'{name}' is not a temporary")
        self._row.read_after = launched
        self._row.reads[f"{name}[0]"] = name
        return SymInt(fact(f"{name}[0]"))

    # ---- Recording

    def _add_tensor(self, name: str) -> None:
        if name in self._tensors:
            raise ValueError(f"there are two tensors of the name '{name}'")
        self._tensors.add(name)

    def _set(self, kind: str, name: str, value: Symbol) -> None:
        row = self._row
        if any(name in known for known in (row.numbers, row.reals, row.lists, row.constants)):
            raise ValueError(f"there are two values of the name '{name}'")
        getattr(row, kind)[name] = self._graph.add(value)

    def _set_contents(
        self, name: str, dtype: Dtype | None, initial: Float | SymTensor | None
    ) -> None:
        if isinstance(initial, SymTensor):
            self._row.starts_as[name] = self._tensor_name(initial)
        elif initial is not None:
            known = symbol(initial)
            if not isinstance(known, (SymInt, SymFloat, SymBool)):
                raise TypeError(f"'{name}' is filled with {known!r}, which is not a number")
            self._row.initial[name] = self._graph.add(known)
        if dtype is not None:
            self._row.made_dtypes[name] = self._graph.add(_symbol_of_dtype(dtype))

    def _integer(self, value: Int) -> int:
        known = symbol(value)
        if not isinstance(known, (SymInt, SymBool)):
            raise TypeError(f"{value!r} is not an integer")
        return self._graph.add(known)

    def _list(self, value: Ints) -> int:
        known = symbol(value)
        if not isinstance(known, SymList) or known._element is SymFloat:
            raise TypeError(f"{value!r} is not a list of integers")
        return self._graph.add(known)

    def _flag(self, value: Bool) -> int:
        """The node of a condition; -1 if it always holds."""
        if not isinstance(value, (bool, SymBool)):
            raise TypeError(f"a condition is a flag, not {type(value).__name__}")
        return -1 if _is_true(value) else self._graph.add(value)

    def _tensor_name(self, tensor: SymTensor) -> str:
        if not isinstance(tensor, SymTensor):
            raise TypeError(f"{tensor!r} is not a tensor")
        if tensor.node in self._operand_names:
            return self._operand_names[tensor.node]
        if tensor.node.operation != "name":
            raise ValueError("name an operand, a result or a temporary here, not a computed tensor")
        return str(tensor.node.constant).rpartition(".")[2]


def _symbol_of_dtype(dtype: Dtype) -> Symbol:
    if isinstance(dtype, SymTensor):
        if str(dtype.node.constant).startswith(("results.", "temporaries.")):
            raise ValueError(f"a dtype is that of an operand, and not of {dtype!r}")
        return dtype
    if isinstance(dtype, (torch.dtype, SymInt)):
        number = dtype_number(dtype) if isinstance(dtype, torch.dtype) else dtype
        return Symbol(Node("as_dtype", [symbol(number).node]))
    if dtype != "value":
        raise TypeError(f"{dtype!r} is not a dtype")
    return Symbol(fact("value_dtype"))


def _is_true(flag: Bool) -> bool:
    node = symbol(flag).node
    return node.operation == "number" and node.constant == 1


class Lines(NamedTuple):
    """The lines of a tensor along a dimension."""

    dim: SymInt
    n: SymInt  # elements per line
    inner: SymInt  # distance between neighbours, in elements
    total: SymInt


def lines_of(tensor: SymTensor, dim: SymInt) -> Lines:
    """The lines of a tensor along a dimension, which may be negative."""
    d = wrap(dim, tensor.dim())
    n = tensor.size(d)
    return Lines(d, n, tensor.shape[d + 1 :].prod(), tensor.numel() // maximum(n, 1))
