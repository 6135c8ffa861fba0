"""What PyTorch's own list of operators says beyond their schemas: which forms share a kernel.

The list comes with PyTorch, for its code generator (`native_functions.yaml`); only what is needed
is read, so no parser of YAML has to be installed. Where it is missing there are no groups.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

_FUNCTION = re.compile(r"^- func: ([\w.]+)\(", re.MULTILINE)
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)", re.MULTILINE)
_STRUCTURED = re.compile(r"^  structured: True", re.MULTILINE)


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
