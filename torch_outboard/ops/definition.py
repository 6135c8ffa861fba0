"""Operator definitions as C++ gets them (csrc/device_kernels/definitions/definition.h)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.paths import PACKAGE

Nodes = list[tuple[str, list[int], float | str | None]]  # of a graph (symbolic.py)


@dataclass(frozen=True, slots=True)
class Definition:
    """An operator definition.

    Attributes:
        kind: the kernel generator.
        overloads: full names, `"aten::add.Tensor"`.
        properties: by name; each kind describes its own in C++.
        location: "file:line", for messages.
        graph: nodes that properties name by index.
        family: the kind of work, for listings and `prebuild --family`; default: that of the module
            in tables.py, or else the kind.
    """

    kind: str
    overloads: list[str]
    properties: Mapping[str, Any] = field(repr=False)
    location: str = ""
    graph: Nodes = field(default_factory=list, repr=False)
    family: str = ""


# Groups of dtypes.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTEGERS = (torch.uint8, *SIGNED)
BOOL = (torch.bool,)
EVERY = (*FLOATS, *INTEGERS, *BOOL, *COMPLEX)


# An error that kernels raise at the next synchronization where a value is wrong, such as an index
# out of range; an instance has its message.
Report = type[Exception] | Exception


def reported(error: Report | None) -> dict[str, Any]:
    """The properties of a definition that reports an error."""
    if error is None:
        return {}
    kind = error if isinstance(error, type) else type(error)
    return {"reports": kind.__name__, "report": "" if kind is error else str(error)}


def caller_location() -> str:
    """ "file:line" of the call into the module that calls this function, for messages."""
    frame = sys._getframe(1)
    module = frame.f_code.co_filename
    while frame.f_back is not None and frame.f_code.co_filename == module:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def dtype_bits(dtypes: Iterable[torch.dtype]) -> int:
    """A bit mask: bit i is set for the dtype of number i."""
    return _C.dtype_bits(list(dtypes))


def dtype_number(dtype: torch.dtype) -> int:
    """The number of a dtype in C++."""
    return dtype_bits((dtype,)).bit_length() - 1


def qualified(names: str | Iterable[str]) -> list[str]:
    """Full names of overloads: `"add.Tensor add.out"` are `aten::add.Tensor`, `aten::add.out`."""
    listed = names.split() if isinstance(names, str) else names
    return [name if "::" in name else f"aten::{name}" for name in listed]


@cache
def kernel_source(name: str) -> str:
    """The source in the one file `<name>.cl` below `torch_outboard/kernels`.

    Sources for one folder of `torch_outboard/ops` are in the folder of the same name. Sources that
    several folders use are in `kernels` itself.
    """
    return _template_files()[name].read_text()


@cache
def _template_files() -> dict[str, Path]:
    return {file.stem: file for file in (PACKAGE / "kernels").rglob("*.cl")}


def call_scalar_functions(text: str, names: Iterable[str]) -> str:
    """OpenCL C in which calls of scalar functions have their prefix: `exp(x)` is `ob_exp(x)`."""
    return _calls_of(frozenset(names)).sub(r"ob_\1", text)


@cache
def _calls_of(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![\w.])(" + "|".join(sorted(map(re.escape, names))) + r")(?=\s*\()")
