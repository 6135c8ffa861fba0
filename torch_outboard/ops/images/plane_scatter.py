"""Values of planes that go back to the places they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_outboard.ops.row import FLOATS, Row, template
from torch_outboard.ops.template import Launch, Result, templated


def plane_scatter(
    overloads: str,
    values: str,
    dimensions: int,
    sizes: str,
    result: Result,
    *,
    adds: bool,
    conditions: Sequence[str] = (),
    **properties: Any,
) -> Row:
    """A row that moves the `values` of planes to `indices` in planes of `sizes`."""
    text = template("plane_scatter").replace("source_load", f"{values}_load")
    return templated(
        overloads,
        None,
        Launch("plane_scatter", f"prod(sizes({values})[:{-dimensions}])"),
        source=text,
        dtypes=FLOATS,
        operands=f"{values} indices",
        accepts={"indices": "int64"},
        results=result,
        numbers={"inputs": f"prod(sizes({values})[{-dimensions}:])", "outputs": f"prod({sizes})"},
        constants={"ADDS": str(int(adds))},
        # `self` gives the sizes alone where it is not what moves.
        requires={} if values == "self" else {"self": f"dtype of {values}"},
        conditions=[f"prod({sizes}) > 0 || numel({values}) == 0", *conditions],
        reports="RuntimeError",
        family="pooling",
        **properties,
    )
