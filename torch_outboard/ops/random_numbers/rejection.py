"""Random numbers that take an open number of draws: those of the CPU, bit by bit.

Both compile one source, `torch_outboard/kernels/random_numbers/rejection.cl`. It computes in
float64, also for narrower dtypes: devices without it leave these operators to the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_outboard.ops.row import Row
from torch_outboard.ops.template import Launch, Result, templated

_POISSON, _BINOMIAL, _GAMMA = range(3)

# REJECTION_BLOCKS in rejection.cl.
_BLOCKS = 64

# The dtypes of PyTorch's CPU kernels, with the least positive normal number and the number below 1.
_LIMITS = {
    torch.float32: ("1.1754943508222875e-38", "0.9999999403953552"),
    torch.float64: ("2.2250738585072014e-308", "0.9999999999999999"),
}


def rows() -> list[Row]:
    """Every row."""
    return [
        _values(
            "poisson",
            _POISSON,
            (torch.float16, torch.bfloat16, *_LIMITS),
            reports="RuntimeError: invalid Poisson rate, expected rate to be non-negative",
        ),
        _values(
            "binomial",
            _BINOMIAL,
            tuple(_LIMITS),
            operands="count prob",
            # The host knows what becomes of other sizes.
            conditions=["sizes(count) == sizes(prob)"],
        ),
        *(
            _values("_standard_gamma", _GAMMA, (dtype,), reals={"smallest": smallest})
            for dtype, (smallest, _) in _LIMITS.items()
        ),
        *(_dirichlet(dtype, *limits) for dtype, limits in _LIMITS.items()),
    ]


def _values(
    overload: str,
    distribution: int,
    dtypes: Sequence[torch.dtype],
    *,
    operands: str = "self",
    **properties: object,
) -> Row:
    elements = f"numel({operands.split()[0]})"
    return templated(
        overload,
        "philox rejection rejection_values",
        Launch("rejection_values", elements),
        dtypes=dtypes,
        operands=operands,
        constants={"DISTRIBUTION": str(distribution)},
        compute="float64",
        random=f"{elements} > 0 ? {_BLOCKS} : 0",
        family="random",
        **properties,  # type: ignore[arg-type]
    )


def _dirichlet(dtype: torch.dtype, smallest: str, largest: str) -> Row:
    return templated(
        "_sample_dirichlet",
        "philox rejection dirichlet",
        [Launch("gamma_parts", "numel(self)"), Launch("shares", "numel(self) // length")],
        dtypes=(dtype,),
        let={"length": "dims(self) > 0 ? max(size(self, -1), 1) : 1"},
        temporaries=[
            Result("factors", "numel(self)", "float64"),
            Result("exponents", "numel(self)", "float64"),
        ],
        numbers={"length": "length"},
        reals={"smallest": smallest, "largest": largest},
        compute="float64",
        random=f"numel(self) > 0 ? {_BLOCKS} : 0",
        family="random",
    )
