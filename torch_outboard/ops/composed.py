"""How rows of the engine `composed` (csrc/device_kernels/composed/composed.h) are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import dedent, indent

import torch

from torch_outboard.ops.row import (
    EVERY,
    Row,
    Value,
    dtype_bits,
    dtype_number,
    qualified,
)

# The language knows dtypes by number.
_DTYPES = {
    name: dtype_number(getattr(torch, name))
    for name in ("bool", "uint8", "int32", "int64", "float32", "float64")
}


def composed(
    overloads: str,
    body: str,
    *,
    dtypes: Iterable[torch.dtype] = EVERY,
    helpers: str = "",
    conditions: Sequence[str] = (),
    results: str = "",
    **properties: Value,
) -> Row:
    """A row.

    Args:
        overloads: names without namespace, separated by blanks.
        body: in the language of TorchScript; the names are the arguments of the overloads.
        dtypes: of the first tensor, that are served.
        helpers: functions that the body calls, in the same language.
        conditions, results, properties (`meta`, `requires`, `family`): as in composed.h.
    """
    return {
        "engine": "composed",
        "overloads": qualified(overloads),
        "body": indent(_numbers(dedent(body).strip("\n")), "    ") + "\n",
        "helpers": _numbers(dedent(helpers).strip("\n")) + "\n",
        "dtypes": dtype_bits(dtypes),
        "conditions": list(conditions),
        "results": results.split(),
        **properties,
    }


def _numbers(text: str) -> str:
    pattern = r"\btorch\.(" + "|".join(_DTYPES) + r")\b"
    return re.sub(pattern, lambda found: str(_DTYPES[found[1]]), text)
