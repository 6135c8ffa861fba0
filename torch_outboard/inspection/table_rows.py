"""Which row of the operator tables an overload has, and in which file that stands."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from torch_outboard.ops import tables


@dataclass(frozen=True)
class TableRow:
    """Where a device kernel of the kit comes from."""

    engine: str
    family: str
    file: str  # from the folder of the package: "torch_outboard/ops/pointwise/operators.py"
    dtypes: int  # bits, as in torch_outboard.ops.row.dtype_bits; 0 where the row does not say


@functools.cache
def table_rows() -> Mapping[str, tuple[TableRow, ...]]:
    """The rows of each overload that has some; they are tried in this order."""
    found: dict[str, tuple[TableRow, ...]] = {}
    for name in tables.TABLES:
        module = f"torch_outboard.ops.{name}"
        for row in import_module(module).rows():
            engine = str(row["engine"])
            made = TableRow(
                engine,
                str(row.get("family", engine)),
                module.replace(".", "/") + ".py",
                cast("int", row.get("dtypes", 0)),
            )
            for overload in cast("list[str]", row["overloads"]):
                found[overload] = (*found.get(overload, ()), made)
    return found
