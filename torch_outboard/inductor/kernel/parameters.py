"""Parameters of a kernel (tensors, sizes, host scalars), and its definition in generated code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.codegen.common import SizeArg, TensorArg
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from torch_outboard.inductor.opencl.value_types import STORED_TYPES
from torch_outboard.inductor.target import Target

# Types of parameters that are passed by value, by their letters for GraphKernel.
_SCALARS = {"f": "float", "d": "double", "i": "int", "l": "long"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: name in the kernel's source.
        letter: its kind for GraphKernel: "t" for a tensor, "F" for the flag of indices out of
            range, "A" for the flag of an assertion, or a letter of _SCALARS.
        kind: the type of the value, or of the elements behind a pointer.
        argument: source of the argument; empty if callers do not pass it.
    """

    name: str
    letter: str
    kind: str
    argument: str

    @property
    def is_pointer(self) -> bool:
        return self.letter in "tFA"

    def declaration(self) -> str:
        if self.is_pointer:
            return f"OB_POINTER({self.kind}, {self.name})"
        return f"const {self.kind} {self.name}"

    def bytes(self, target: Target) -> int:
        """Bytes of the device's limit for parameters that this one takes."""
        if self.is_pointer:
            return target.pointer_bytes
        return 8 if self.letter in "dl" else 4


FAULT = Parameter("ob_fault", "F", "int", "")
# Parameters of a kernel that several others share, by letter, type and argument.
Shared = dict[tuple[str, str, str], Parameter]


def shared_parameter(shared: Shared, parameter: Parameter, argument: str) -> Parameter:
    """The parameter of a shared kernel for one of a part of it; added if it is new."""
    key = parameter.letter, parameter.kind, argument
    start = "ptr" if parameter.is_pointer else "value"
    new = FAULT if parameter.letter == FAULT.letter else Parameter(f"{start}{len(shared)}", *key)
    return shared.setdefault(key, new)


def is_number_of_host(name: str) -> bool:
    """Whether a buffer is a host scalar, which is passed by value.

    Before 2.12 Inductor copies such an argument, with another shape, to a buffer of the host.
    """
    if V.graph.is_unspec_arg(name):
        return True
    buffer = V.graph.try_get_buffer(name)
    device = None if buffer is None else buffer.get_device()
    return device is not None and device.type == "cpu" and buffer.get_numel() == 1


def parameters_of(kernel: Any) -> list[Parameter]:
    """The parameters of a kernel, after its body is generated."""
    names, calls, arguments, _ = kernel.args.python_argdefs()
    parameters = [
        _parameter(kernel, name.name, str(call), argument)
        for name, call, argument in zip(names, calls, arguments, strict=True)
    ]
    return [*parameters, *kernel.assertions.values(), *([FAULT] if kernel.reports else [])]


def assertion(number: int, message: str) -> Parameter:
    """The flag that a kernel sets if an assertion fails; callers pass its message."""
    return Parameter(f"ob_assertion{number}", "A", "int", repr(message))


def _parameter(kernel: Any, name: str, call: str, argument: Any) -> Parameter:
    if isinstance(argument, TensorArg) and is_number_of_host(argument.buffer):
        letter = _letter(argument.dtype)
        return Parameter(name, letter, _SCALARS[letter], call)
    if isinstance(argument, TensorArg):
        return Parameter(name, "t", STORED_TYPES[argument.dtype], call)
    if isinstance(argument, SizeArg):
        letter = "i" if kernel.index_torch_dtype == torch.int32 else "l"
        if symbol_is_type(argument.expr, SymT.UNBACKED_FLOAT):
            letter = "f"
        return Parameter(name, letter, _SCALARS[letter], call)
    raise NotImplementedError("compiled graphs do not support workspaces")


def _letter(dtype: torch.dtype) -> str:
    """The letter of a host scalar."""
    if dtype.is_floating_point:
        return "d" if dtype == torch.float64 else "f"
    return "l" if dtype.itemsize == 8 or dtype == torch.uint32 else "i"


_HEAD = "__kernel void NAME("


def source_of_kernel(parameters: Sequence[Parameter], body: str) -> str:
    """The source of a kernel that has no name yet."""
    binds = [f"OB_BIND({p.kind}, {p.name})" for p in parameters if p.is_pointer]
    head = f"{_HEAD}{', '.join(p.declaration() for p in parameters)}) {{"
    lines = [head, *(f"    {line}" for line in (*binds, *body.splitlines())), "}"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel that has a name.

    Attributes:
        name: its name in the program and in generated code.
        source: its OpenCL C source without a name, from `source_of_kernel`.
        parameters: its parameters in order.
        properties: GraphKernel's arguments that divide the work.
        origins: the nodes of the graph that it computes, each with its Python source line.
        device: index of the device.
    """

    name: str
    source: str
    parameters: Sequence[Parameter]
    properties: dict[str, Any]
    origins: Sequence[str]
    device: int

    def registration(self) -> str:
        """The Python expression that registers the kernel with `program`."""
        letters = "".join(parameter.letter for parameter in self.parameters)
        described = ", ".join(f"{key}={value!r}" for key, value in self.properties.items())
        source = self.source.replace(_HEAD, f"__kernel void {self.name}(")
        return (
            f"program.kernel({self.name!r}, r'''\n{source}''', device={self.device}, "
            f"parameters={letters!r}, {described},\n"
            f"    origins={tuple(self.origins)!r})"
        )
