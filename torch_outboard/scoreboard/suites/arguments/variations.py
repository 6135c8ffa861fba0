"""Calls that differ from a usable one in a single argument."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, nan, prod
from typing import Any

import torch

from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.scoreboard.suites.arguments.calls import ArgumentsCall

HUGE = (2**31, 2**33, 2**62)
SCALARS = (True, 0, -1, 2, 2.5, 2j, nan, inf, *HUGE)
FLOATS = (0.0, -1.0, 0.5, 2.0, nan, inf, -inf, 1e300)
INTS = (0, 1, -1, 2, 5, *HUGE, -(2**62))
# Names that operators know, and one that none does.
STRINGS = (
    "", "wrong", "none", "tanh", "floor", "trunc", "left", "right", "sum", "mean", "prod", "amax",
    "amin", "max", "min", "add", "multiply",
)  # fmt: skip
DTYPES = (
    torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64, torch.complex64,
)  # fmt: skip
# Where a new tensor lies; without them it lies on CPU.
OF_FACTORIES = ("device", "layout", "pin_memory")
REVERSED = "with dimensions in reverse order"
FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last)


@dataclass(frozen=True)
class Variation:
    """A call, and what about it is unusual.

    Args:
        check: "numbers", "lists", "tensors", "layouts", "overlaps" or "devices".
        label: the argument and what it is.
        elsewhere: whether tensors are on different devices: the argument `moved` is on the host
            and the others on the device, or the reverse.
    """

    check: str
    label: str
    call: ArgumentsCall
    moved: str = ""
    elsewhere: str = field(default="")  # "host" or "device"


def variations(call: ArgumentsCall, numbers_only: bool = False) -> Iterator[Variation]:
    """One argument at a time.

    Args:
        numbers_only: leaves tensors as they are.
    """
    yield Variation("numbers", "as recorded", call)
    for argument in overload_of(call.overload)._schema.arguments:
        if argument.name in OF_FACTORIES:
            continue
        name, value = argument.name, call.arguments[argument.name]
        kind = str(argument.real_type)
        optional = kind.startswith("Optional[")
        kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
        found = list(_values(kind, value))
        if optional and value is not None:
            found.append(("numbers", "None", None))
        if not numbers_only:
            found += _tensor_values(kind, value, argument.is_write)
        for check, label, other in found:
            arguments = {**call.arguments, name: other}
            yield Variation(check, f"{name} {label}", ArgumentsCall(call.overload, arguments))
        if numbers_only:
            continue
        if argument.is_write:
            yield from _overlaps(call, name)
        if kind in ("Tensor", "List[Tensor]", "List[Optional[Tensor]]") and value is not None:
            for where in ("host", "device"):
                yield Variation("devices", f"{name} on the {where}", call, name, where)


# ---- numbers, strings, dtypes and lists of them -------------------------------------------------

Found = tuple[str, str, Any]  # check, label, value


def _values(kind: str, value: Any) -> Iterator[Found]:
    singles: dict[str, tuple[Any, ...]] = {
        "number": SCALARS, "float": FLOATS, "int": INTS, "SymInt": INTS, "bool": (True, False),
        "str": STRINGS, "ScalarType": DTYPES, "MemoryFormat": FORMATS,
    }  # fmt: skip
    if kind in singles:
        for other in singles[kind]:
            # True equals 1, and nan not itself.
            if repr(other) != repr(value):
                yield "numbers", f"= {_short(other)}", other
        return
    element = kind.removeprefix("List[").removesuffix("]")
    if element in ("int", "SymInt", "float", "number", "bool"):
        present = list(value) if isinstance(value, (list, tuple)) else []
        for other in _lists(present, singles[element]):
            if other != value:
                yield "lists", f"= {_short(other)}", other


def _lists(present: list[Any], singles: tuple[Any, ...]) -> Iterator[list[Any]]:
    yield []
    yield [*present, present[-1] if present else singles[0]]
    if len(present) > 1:
        yield present[:-1]
        yield [present[0]] * len(present)
    for position in sorted({0, len(present) - 1} & set(range(len(present)))):
        for single in singles:
            yield [*present[:position], single, *present[position + 1 :]]


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) in HUGE:
        return f"{'-' if value < 0 else ''}2**{abs(value).bit_length() - 1}"
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else repr(value)


# ---- tensors ------------------------------------------------------------------------------------


def _tensor_values(kind: str, value: Any, written: bool) -> Iterator[Found]:
    if kind == "Tensor" and isinstance(value, torch.Tensor):
        for check, label, tensor in _other_tensors(value, written):
            yield check, label, tensor
    elif kind == "Tensor" and value is None:
        yield "tensors", "= a tensor", torch.ones(3)
    elif kind.startswith("List[") and isinstance(value, (list, tuple)):
        tensors = list(value)
        if not any(isinstance(t, torch.Tensor) for t in tensors):
            return
        yield "lists", "= []", []
        yield "lists", "without the last", tensors[:-1]
        last = tensors[-1]
        if isinstance(last, torch.Tensor):
            for check, label, tensor in _other_tensors(last, written):
                yield check, f"with the last {label}", [*tensors[:-1], tensor]


def _other_tensors(tensor: torch.Tensor, written: bool) -> Iterator[Found]:
    if tensor.layout != torch.strided or tensor.is_nested:
        return
    shape = tuple(tensor.shape)
    empty: dict[tuple[int, ...], str] = {(0,): "of shape (0,)"}
    for dim in sorted({0, len(shape) - 1} & set(range(len(shape)))):
        empty.setdefault((*shape[:dim], 0, *shape[dim + 1 :]), f"with dimension {dim} of size 0")
    empty.setdefault((0,) * len(shape), "with all dimensions of size 0")
    for sizes, label in empty.items():
        if sizes != shape:
            yield "tensors", label, tensor.new_empty(sizes)
    if shape:
        if tensor.numel() > 0:
            yield "tensors", "with 0 dimensions", _first(tensor)
        yield "tensors", "with a dimension more", tensor.clone().unsqueeze(0)
    if shape and shape[0] > 1:
        yield "tensors", "one shorter", tensor[:-1].clone()
        yield "tensors", "of size 1", tensor[:1].clone()
    for dtype in (torch.bool, torch.int64, torch.float32, torch.complex64):
        if dtype != tensor.dtype:
            yield (
                "tensors",
                f"of dtype {str(dtype).removeprefix('torch.')}",
                _as_dtype(tensor, dtype),
            )
    if len(shape) > 1:
        yield "layouts", REVERSED, _reversed(tensor)
    if shape and prod(shape) > 1:
        if written:
            yield "overlaps", "expanded", _first(tensor).expand(shape)
        else:
            yield "layouts", "expanded", tensor[:1].clone().expand(shape)


def _first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1)[:1].clone().reshape(())


def _as_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (tensor.real if tensor.is_complex() and not dtype.is_complex else tensor).to(dtype)


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in memory of the other order."""
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def _overlaps(call: ArgumentsCall, name: str) -> Iterator[Variation]:
    """A written tensor shares memory with another: all of it, or all but one element."""
    written = call.arguments[name]
    if isinstance(written, (list, tuple)):
        if len(written) > 1 and all(isinstance(t, torch.Tensor) for t in written):
            same = {**call.arguments, name: [written[0]] * len(written)}
            label = f"{name} the same tensor twice"
            yield Variation("overlaps", label, ArgumentsCall(call.overload, same))
        return
    both = {a.name for a in overload_of(call.overload)._schema.arguments if a.is_write}
    for other, tensor in call.arguments.items():
        if other == name or not isinstance(tensor, torch.Tensor) or tensor.numel() < 2:
            continue
        if not isinstance(written, torch.Tensor) or tensor.layout != torch.strided:
            continue
        same = {**call.arguments, name: tensor}
        yield Variation(
            "overlaps",
            f"{name} the same tensor as the {'written' if other in both else 'read'} {other}",
            ArgumentsCall(call.overload, same),
        )
        if written.dtype != tensor.dtype:
            continue
        count = max(written.numel(), tensor.numel())
        memory = torch.zeros(count + 1, dtype=written.dtype)
        memory[: tensor.numel()] = tensor.reshape(-1)
        shifted = {
            **call.arguments,
            other: memory[: tensor.numel()].view(tensor.shape),
            name: memory[1 : written.numel() + 1].view(written.shape),
        }
        yield Variation(
            "overlaps", f"{name} one element behind {other}", ArgumentsCall(call.overload, shifted)
        )
