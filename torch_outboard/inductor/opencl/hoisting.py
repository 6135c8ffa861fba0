"""Statements of a loop that compute the same with each turn, to be put before it.

A compiler must not move them where the loop stores something: a pointer might lead to what they
read. Inductor knows that it does not. Without this, AdamW takes two powers of its step count for
every vector of a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from torch_outboard.ops.functions.table import costly, functions

_KINDS = "float double int uint long ulong"
_STATEMENT = re.compile(rf"^ *const (?:{'|'.join(_KINDS.split())}) (tmp\d+) = (.*);$")
_LOAD = re.compile(r"\bob_load_\w+\((\w+), \d+\)")
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*")
_CALL = re.compile(r"^ob_(\w+)_[a-z]+$")
_READ = r"\bob_(?:masked_)?(?:stride2_|repeat._)?(?:load|gather)_\w+\({}\b"


def hoist(text: str, pointers: dict[str, str], numbers: Collection[str]) -> tuple[str, str]:
    """Splits the text of a loop, or of several with the same statements.

    Args:
        text: one statement in a line.
        pointers: names of what it reads and writes, and the buffers behind them.
        numbers: names of parameters that are numbers.

    Returns:
        What can stand before all loops, also those over units of work, and the rest. Nothing is
        moved if it is cheap.
    """
    fixed = _only_read(text, pointers)
    moved: dict[str, str] = {}
    ambiguous: set[str] = set()
    inside = 0  # of how many branches
    for line in text.splitlines():
        if inside or (line.lstrip().startswith("if (") and line.endswith("{")):
            inside += line.count("{") - line.count("}")
            continue
        if (found := _STATEMENT.match(line)) is None or found[1] in ambiguous:
            continue
        if found[1] in moved and moved[found[1]] != line.strip():
            return "", text  # a name with two values
        if _is_fixed(found[2], fixed, {*moved, *numbers}):
            moved[found[1]] = line.strip()
        else:
            ambiguous.add(found[1])
    if not any(_costs(line) for line in moved.values()):
        return "", text
    lines = {*moved.values()}
    rest = [line for line in text.splitlines() if line.strip() not in lines]
    return "\n".join(moved.values()) + "\n", "\n".join(rest) + "\n"


def _only_read(text: str, pointers: dict[str, str]) -> set[str]:
    """Pointers to buffers that are read and not written, by any name."""
    written = {
        buffer
        for name, buffer in pointers.items()
        if len(re.findall(rf"\b{name}\b", text)) != len(re.findall(_READ.format(name), text))
    }
    return {name for name, buffer in pointers.items() if buffer not in written}


def _is_fixed(expression: str, pointers: Collection[str], known: Collection[str]) -> bool:
    """Whether it needs nothing but `known` names and what `pointers` lead to."""
    loads = _LOAD.findall(expression)
    if any(pointer not in pointers for pointer in loads):
        return False
    words = re.findall(r"[A-Za-z_]\w*", _NUMBER.sub(" ", _LOAD.sub(" ", expression)))
    return all(
        word in known or word in _KINDS.split() or word.startswith(("as_", "convert_"))
        or _function(word) in functions()
        for word in words
    )  # fmt: skip


@cache
def _function(word: str) -> str:
    found = _CALL.match(word)
    return found[1] if found else ""


def _costs(statement: str) -> bool:
    return any(_function(word) in costly() for word in re.findall(r"\bob_\w+", statement))
