"""How rows of the engine `template` (csrc/device_kernels/template/template.h) are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from torch_outboard.ops.row import Row, Value, dtype_bits, qualified, template


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel.

    Args:
        kernel: its name in the template.
        items: expression for the number of its work items, or of its work-groups.
        groups: `items` are work-groups; then the kernel loops over them with OB_FOR_GROUPS.
        when: expression: 0, and it is left out.
        repeat: expression: how often it is launched; kernels see `ob_step`.
    """

    kernel: str
    items: str
    groups: bool = False
    when: str = "1"
    repeat: str = "1"


@dataclass(frozen=True)
class Result:
    """A result, or a temporary tensor.

    Args:
        name: what kernels call it. No argument of the functional form may have the name.
        sizes: expression: a list for a result, a number for a temporary. Not needed with `meta`;
            without it a result has the sizes of the first operand.
        dtype: the name of an operand (default: the first one), `"dtype"` for the argument of that
            name, `"value"` for that of values (float32 for half), or a dtype such as `"int64"`.
        like: operand whose strides it gets, as in `torch.empty_like`.
        memory_format: operand whose memory format it gets: channels last where that is, else
            row-major order.
        strides: expression: a list, or an empty one for row-major order.
        wanted: expression: 0, and the result is an undefined tensor.
        initial: what it holds before the first launch: a number, or an operand's name.
    """

    name: str
    sizes: str = ""
    dtype: str = ""
    like: str = ""
    memory_format: str = ""
    strides: str = ""
    wanted: str = ""
    initial: str = ""


def templated(
    overloads: str | Sequence[str],
    kernels: str | None,
    launches: Launch | Sequence[Launch],
    *,
    dtypes: Iterable[torch.dtype],
    operands: str = "self",
    results: str | Result | Sequence[Result] = "out",
    temporaries: Sequence[Result] = (),
    accepts: Mapping[str, str] | None = None,
    let: Mapping[str, str] | None = None,
    numbers: Mapping[str, str] | None = None,
    reals: Mapping[str, str] | None = None,
    lists: Mapping[str, str] | None = None,
    constants: Mapping[str, str] | None = None,
    source: str = "",
    scalars: str = "",
    conditions: Sequence[str] = (),
    items_of: str = "",
    strided: str = "",
    reads: Mapping[str, str] | None = None,
    **properties: Value,
) -> Row:
    """A row.

    Args:
        overloads: names, those of `aten` without namespace, separated by blanks.
        kernels: files below `torch_outboard/kernels`, without folder and `.cl`, separated by
            blanks; None with a `source`.
        launches: in order.
        source: text of the kernels.
        dtypes: of the first operand, or else the first result, that are served.
        operands, scalars, items_of, strided: names, separated by blanks.
        results: in order; a string names the only one.
        accepts, let, numbers, reals, lists, constants, conditions, reads, properties (`meta`,
            `compute`, `vectors`, `random`, `read_after`, `requires`, `reports`,
            `resizes_silently`, `family`): as in docs/rows.md.
    """
    launched = [launches] if isinstance(launches, Launch) else list(launches)
    if isinstance(results, str):
        results = Result(results)
    made = [results] if isinstance(results, Result) else list(results)
    tensors = [*made, *temporaries]
    same = f"sizes({operands.split()[0].removesuffix('?')})" if operands else ""
    row: Row = {
        "engine": "template",
        "overloads": qualified(overloads),
        "source": template("template")
        + (source or "".join(map(template, (kernels or "").split()))),
        "dtypes": dtype_bits(dtypes),
        "operands": operands.split(),
        "accepts": dict(accepts or {}),
        "results": [result.name for result in made],
        "sizes": [] if "meta" in properties else [result.sizes or same for result in made],
        "result_dtypes": [result.dtype for result in made],
        "like": [result.like for result in made],
        "memory_formats": {
            result.name: result.memory_format for result in tensors if result.memory_format
        },
        "strides": {result.name: result.strides for result in tensors if result.strides},
        "wanted": {result.name: result.wanted for result in tensors if result.wanted},
        "initial": {result.name: result.initial for result in tensors if result.initial},
        "temporaries": [temporary.name for temporary in temporaries],
        "temporary_sizes": [temporary.sizes for temporary in temporaries],
        "temporary_dtypes": [temporary.dtype for temporary in temporaries],
        "let": _named(let),
        "numbers": _named(numbers),
        "reals": _named(reals),
        "lists": _named(lists),
        "constants": _named(constants),
        "reads": _named(reads),
        "scalars": scalars.split(),
        "items_of": items_of.split(),
        "strided": strided.split(),
        "conditions": list(conditions),
        "kernels": [launch.kernel for launch in launched],
        "items": [launch.items for launch in launched],
        "when": [launch.when for launch in launched],
        "repeat": [launch.repeat for launch in launched],
        "groups": ["1" if launch.groups else "0" for launch in launched],
    }
    row.update(properties)
    return row


def _named(texts: Mapping[str, str] | None) -> list[str]:
    return [f"{name} = {text}" for name, text in (texts or {}).items()]
