"""User kernels: a Python function, an expression or kernels in OpenCL C that run an operator on
the device."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import torch

from torch_outboard import _C
from torch_outboard.device.devices import DeviceLike, device_index
from torch_outboard.dispatch import dispatcher

if TYPE_CHECKING:
    from torch_outboard.ops.expression import Pointwise
    from torch_outboard.ops.template import Body

__all__ = ["Expression", "Registration", "kernel", "registrations"]


@dataclass(frozen=True)
class Expression:
    """A kernel given by an expression; see `kernel`.

    Attributes:
        source: the expression.
        operands: names of tensor arguments, called a, b, c and so on in the expression.
        scalars: names of numbers in the expression.
        types, result, requires: as for `kernel`.
    """

    source: str
    operands: tuple[str, ...]
    scalars: tuple[str, ...]
    types: str
    result: str
    requires: tuple[tuple[str, object], ...]


class Registration:
    """A registered kernel. `remove()`, or the end of a `with` block, unregisters it."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | None,
        token: _C.RoutedKernel,
        expression: Expression | None = None,
        dtypes: Iterable[torch.dtype] | None = None,
        device: int = -1,
    ) -> None:
        self.name = name
        self.function = function
        self.expression = expression
        self.dtypes = None if dtypes is None else frozenset(dtypes)
        self.device = device
        self._token: _C.RoutedKernel | None = token
        registrations.setdefault(name, []).append(self)

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self.function is None:
            raise TypeError(
                f"the kernel of {self.name} is not a Python function; call the operator"
            )
        return self.function(*args, **kwargs)

    def remove(self) -> None:
        """Unregisters the kernel, from the next call on. Does nothing the second time."""
        if self._token is not None:
            _C.remove_kernel(self.name, self._token)
            self._token = None
            registrations[self.name].remove(self)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


# User kernels by overload, the latest last.
registrations: dict[str, list[Registration]] = {}


@overload
def kernel(
    name: str,
    *,
    dtypes: Iterable[torch.dtype] | None = None,
    device: DeviceLike = None,
) -> Callable[[Callable[..., Any]], Registration]: ...


@overload
def kernel(
    name: str,
    *,
    expression: str,
    types: str = "promote",
    result: str = "value",
    requires: dict[str, Any] | None = None,
    dtypes: Iterable[torch.dtype] | None = None,
    device: DeviceLike = None,
) -> Registration: ...


@overload
def kernel(
    name: str,
    *,
    source: str,
    dtypes: Iterable[torch.dtype] | None = None,
    device: DeviceLike = None,
    **fields: Any,
) -> Callable[[Body], Registration]: ...


def kernel(
    name: str,
    *,
    expression: str | None = None,
    types: str = "promote",
    result: str = "value",
    requires: dict[str, Any] | None = None,
    source: str | None = None,
    dtypes: Iterable[torch.dtype] | None = None,
    device: DeviceLike = None,
    **fields: Any,
) -> Callable[[Callable[..., Any]], Registration] | Registration:
    """Registers the device's kernel of an operator: a Python function, an expression, or kernels.

    A function (this is then a decorator) takes and returns device tensors, with the arguments of
    the operator's schema. An expression in OpenCL C computes one element of a pointwise operator:
    its tensor arguments are called `a`, `b`, `c` and so on in their order, numbers and flags have
    their names in the schema, `C(0.5)` is a constant of the type of computation, and its value is
    an element of the result. The kit does broadcasting, type promotion, layouts and `out=`. It also
    compiles the expression for vectors: write `condition ? x : y` instead of `if`, and `&` and `|`
    between conditions.

    With `source` this is a decorator, too: the function plans the launches of kernels in OpenCL C.
    The function runs once, with a `torch_outboard.Plan` and symbols in place of the operator's
    arguments, and states the conditions, tensors and launches of a call. Its tensor parameters are
    the operands: kernels have `x_load(i)` and `x_store(i, value)` for operands and results
    (torch_outboard/kernels/template.cl lists all macros). `fields` are parameters of
    `torch_outboard.ops.template.template`: `strided`, `moves`, `accepts`, `reports` and so on.

    Kernels run below autograd, so the operator keeps its derivative. An operator without its own
    derivative is decomposed where autograd records, and the kernel does not run. From the next call
    on, users' kernels precede the vendor's and the kit's; the latest user's kernel is first. The
    next kernel runs calls that an expression does not serve, or for which a function raises
    `torch_outboard.Declined` before it writes to a tensor. A kernel of an `out=` form also serves
    the functional and the in-place form of a structured operator, if these have no kernel.

    Args:
        name: the overload, for example `"aten::relu"` or `"aten::add.Tensor"`; without a namespace
            it is of `aten`.
        expression: for example `"a > C(0) ? a : C(0)"`.
        types: of an expression: `"promote"` computes in the common dtype of the tensors, `"float"`
            makes integers the default dtype first.
        result: of an expression: `"value"`, or `"mask"` if it is a condition and the operator
            returns bool.
        requires: of an expression: arguments with the only values that it serves, for example
            `{"approximate": "none"}`.
        source: OpenCL C of the kernels.
        dtypes: served dtypes of the first tensor argument (or of the `dtype` argument); with
            `source`, of the first operand, or else of the first result.
        device: the only served device.

    Raises:
        ValueError: if there is no such operator, or if only the kit may implement it (memory, views
            and copies). At a call: if a function returns a tensor of another device, dtype or shape
            than the operator does.
        TypeError: if a property does not exist.

    Examples::

        @torch_outboard.kernel("aten::relu", dtypes=[torch.float32])
        def relu(x):
            return x.clamp(min=0)

        torch_outboard.kernel("aten::leaky_relu", expression="a > C(0) ? a : a * negative_slope")

        @torch_outboard.kernel(
            "mylib::delay",  # (Tensor x, int by) -> Tensor
            source='''
                __kernel void delay(OB_PARAMETERS) {
                  OB_BEGIN
                  OB_ITEM(i)
                  out_store(i, i >= by ? x_load(i - by) : 0);
                }
            ''',
        )
        def delay(plan, x, by):
            plan.require(by >= 0)
            out = plan.result()
            plan.parameters(by=by)
            plan.launch("delay", out.numel())
    """
    name = dispatcher.qualified(name)
    namespace, _, rest = name.partition("::")
    operator, _, overload_name = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None or (overload_name or "default") not in packet.overloads():
        known = [] if packet is None else packet.overloads()
        raise ValueError(
            f"operator '{name}' does not exist"
            + (f"; its overloads are {', '.join(known)}" if known else "")
        )
    index = -1 if device is None else device_index(device)
    wanted = None if dtypes is None else list(dtypes)

    if source is not None:
        return _template_kernel(name, source, wanted, index, fields)
    if fields:
        raise TypeError(f"kernel() takes {', '.join(fields)} only with source=")

    if expression is not None:
        schema = getattr(packet, overload_name or "default")._schema
        definition = _definition_of_expression(
            name, schema, expression, types, result, requires or {}
        )
        _C.load_device_kernels()
        token = _C.add_definition(name, definition, wanted, index)
        described = Expression(
            expression,
            tuple(definition.operands),
            tuple(definition.scalars),
            types,
            result,
            tuple((requires or {}).items()),
        )
        return Registration(name, None, token, described, wanted, index)

    def register(function: Callable[..., Any]) -> Registration:
        token = _C.add_kernel(name, function, wanted, index, _location_of(function))
        return Registration(name, function, token, None, wanted, index)

    return register


def _location_of(function: Callable[..., Any]) -> str:
    """ "file:line" of a function in Python, else the name of its type."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return type(function).__qualname__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _template_kernel(
    name: str,
    source: str,
    dtypes: list[torch.dtype] | None,
    device: int,
    fields: dict[str, Any],
) -> Callable[[Body], Registration]:
    from torch_outboard.ops.definition import EVERY
    from torch_outboard.ops.template import template

    def register(body: Body) -> Registration:
        definition = template([name], source=source, dtypes=dtypes or EVERY, **fields)(body)
        _C.load_device_kernels()
        # None: the definition itself checks the dtypes of the first operand.
        token = _C.add_definition(name, definition, None, device)
        return Registration(name, None, token, None, dtypes, device)

    return register


def _definition_of_expression(
    name: str,
    schema: torch.FunctionSchema,
    expression: str,
    types: str,
    result: str,
    requires: dict[str, Any],
) -> Pointwise:
    """A definition of the kind `pointwise` for an expression over the arguments of a schema."""
    from torch_outboard.ops.definition import (
        BOOL,
        FLOATS,
        INTEGERS,
        definition_of,
        dtype_bits,
        parameter_name,
    )
    from torch_outboard.ops.expression import Pointwise
    from torch_outboard.ops.symbolic import SymBool, SymTensors, as_flag

    mentioned = set(re.findall(r"[A-Za-z_]\w*", expression))
    tensors = [a.name for a in schema.arguments if str(a.type) == "Tensor" and not a.is_out]
    letters = [chr(ord("a") + i) for i in range(len(tensors))]
    numbers = [
        a.name
        for a in schema.arguments
        if str(a.type).removeprefix("Optional[").removesuffix("]")
        in ("number", "float", "int", "bool", "Scalar")
    ]
    known = {argument.name for argument in schema.arguments}
    if unknown := [key for key in requires if key not in known]:
        raise ValueError(
            f"{name} has no argument {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )

    def served(**arguments: Any) -> SymBool:
        holds = as_flag(True)
        for key, value in requires.items():
            given = arguments[parameter_name(key)]
            holds &= given.len() == 0 if isinstance(given, SymTensors) else given == value
        return holds

    scalars = [n for n in numbers if n in mentioned]
    return definition_of(
        Pointwise,
        [name],
        location="",
        condition=served if requires else None,
        operands=tensors,
        names=letters,
        scalars=scalars,
        scalar_names=scalars,
        expressions=[expression],
        types=types,
        result=result,
        dtypes=dtype_bits((*FLOATS, *INTEGERS, *BOOL)),
    )
