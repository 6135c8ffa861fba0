"""Calls to the library of library_driver.cpp, and the calls that it has to refuse."""

import ctypes
import enum
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from torch_outboard import fallback


class Mode(enum.IntFlag):
    NORMAL = 0
    DECLINES = 1
    FAILS = 2
    NO_BIAS = 4
    ONLY_IN_PLACE = 8
    NO_WEIGHT_PASS = 16
    DECLINES_LATE = 32


# In the order of the source.
COUNTS = (
    "products", "forward", "backward_input", "backward_weight", "biases", "in_place",
    "activations", "deterministic", "reduced", "queries",
)  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ["OUTBOARD_DRIVER"])
    library.library_count.restype = ctypes.c_uint64
    return library


def counts() -> Counter[str]:
    return Counter({name: _library().library_count(i) for i, name in enumerate(COUNTS)})


@contextmanager
def calls(mode: Mode = Mode.NORMAL) -> Iterator[Counter[str]]:
    """The library's calls in the scope, to be read behind it."""
    made: Counter[str] = Counter()
    before = counts()
    _library().library_set_mode(int(mode))
    try:
        yield made
    finally:
        _library().library_set_mode(0)
        made.update(counts() - before)


def entry_calls(name: str, dtype: torch.dtype, device: torch.device) -> Counter[str]:
    """The library's calls while an entry of the operator database is right on all samples."""
    from torch.testing._internal.common_methods_invocations import op_db

    from torch_outboard.scoreboard.findings import Limits
    from torch_outboard.scoreboard.suites.operators import check_entry

    (op, *_) = (op for op in op_db if op.name == name)
    with fallback.policy(copied="allow"), calls() as made:
        result = check_entry(op, dtype, device, Limits(forward=6, variants=2, backward=2))
    assert not result.failures
    return made
