"""All tables together, and how they reach the engines."""

from __future__ import annotations

import threading

from torch_outboard import _C
from torch_outboard.ops.row import Row

_lock = threading.RLock()
_handed_over = False


def rows() -> list[Row]:
    """Every row; of those for one overload the first that serves a call takes it."""
    from torch_outboard.ops import convolution, matrix_product, optimizers, pointwise, reduction

    tables = (pointwise, optimizers, reduction, matrix_product, convolution)
    return [row for table in tables for row in table.rows()]


def hand_over() -> None:
    """Gives the tables to C++, once; the runtime asks for it at the first use of a device."""
    global _handed_over
    with _lock:
        if _handed_over:
            return
        from torch_outboard.ops import program_cache, scalar_functions

        program_cache.configure()
        _C.hand_over_tables(scalar_functions.texts(), rows())
        _handed_over = True
