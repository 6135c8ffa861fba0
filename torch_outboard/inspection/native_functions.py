"""What PyTorch's own list of operators says beyond their schemas: which forms share a kernel.

The list comes with PyTorch, for its code generator (`native_functions.yaml`); only what is needed
is read, so no parser of YAML has to be installed. Where it is missing there are no groups.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

_FUNCTION = re.compile(r"^- func: ([\w.]+)\(", re.MULTILINE)
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)", re.MULTILINE)
_STRUCTURED = re.compile(r"^  structured: True", re.MULTILINE)
_STUB = re.compile(r"\bDECLARE_DISPATCH\s*\(")
_STUB_ENDING = re.compile(r"_?(stub|kernel|Kernel)$")


def path() -> Path | None:
    """The list that came with the installed PyTorch; None if there is none."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    return file if file.is_file() else None


def structured_groups_in(text: str) -> dict[str, str]:
    """The same for the text of a list."""
    groups = {}
    starts = list(_FUNCTION.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=True):
        body = text[start.end() : end]
        if match := _DELEGATE.search(body):
            groups[f"aten::{start[1]}"] = f"aten::{match[1]}"
        elif _STRUCTURED.search(body):
            groups[f"aten::{start[1]}"] = f"aten::{start[1]}"
    return groups


@functools.cache
def structured_groups() -> Mapping[str, str]:
    """By overload of a structured operator: the one of its forms whose kernel serves all of them.

    `"aten::add.Tensor"`, `"aten::add_.Tensor"` and `"aten::add.out"` have `"aten::add.out"`.
    """
    file = path()
    return structured_groups_in(file.read_text(encoding="utf-8")) if file else {}


def stubs_in(text: str) -> Iterator[str]:
    """Names of the stubs that a header declares, which stand last in the declarations."""
    for start in _STUB.finditer(text):
        depth, end = 1, start.end()
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        name = re.split(r"[\s,]+", text[start.end() : end - 1].strip())[-1]
        # The macro's own definition has parameters there.
        if _STUB_ENDING.search(name) and name != "stub":
            yield name


@functools.cache
def stubs_by_operator() -> Mapping[str, str]:
    """The stubs that the installed PyTorch declares, by the operators that they are named for."""
    folder = Path(torch.__file__).parent / "include" / "ATen" / "native"
    found = {}
    for header in sorted(folder.rglob("*.h")):
        for name in stubs_in(header.read_text(encoding="utf-8", errors="replace")):
            plain = _STUB_ENDING.sub("", name)
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plain).lower()  # LayerNorm: layer_norm
            found[words.strip("_")] = name
    return found


def stub_of(name: str) -> str:
    """The stub that has the name of an operator of ATen; "" if there is none.

    Most CPU kernels reach their loops through such a stub; a device's own loop can be put there.
    Operators whose stub has another name have to be looked up in PyTorch's sources.
    """
    if not name.startswith("aten::"):
        return ""
    operator = name.removeprefix("aten::").partition(".")[0].strip("_")
    stubs = stubs_by_operator()
    return stubs.get(operator) or stubs.get(operator.removeprefix("native_"), "")
