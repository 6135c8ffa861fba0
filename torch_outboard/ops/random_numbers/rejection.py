"""Random numbers by rejection sampling, which takes an unknown number of draws.

Results equal the CPU's bit by bit. `torch_outboard/kernels/random_numbers/rejection.cl` computes in
float64, also for narrower dtypes: on devices without float64 the host runs these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torch_outboard.ops.definition import Definition, Report
from torch_outboard.ops.symbolic import SymTensor, maximum, where
from torch_outboard.ops.template import Body, Plan, template

_POISSON, _BINOMIAL, _GAMMA = range(3)

# Equals REJECTION_BLOCKS in rejection.cl.
_BLOCKS = 64

# The dtypes of PyTorch's CPU kernels.
_WIDE = (torch.float32, torch.float64)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        _poisson,
        _binomial,
        *(_gamma(dtype) for dtype in _WIDE),
        *(_dirichlet(dtype) for dtype in _WIDE),
    ]


def _define(
    overload: str, dtypes: Sequence[torch.dtype], reports: Report | None = None
) -> Callable[[Body], Definition]:
    return template(
        overload,
        "philox rejection rejection_values",
        dtypes=dtypes,
        compute=torch.float64,
        reports=reports,
    )


def _reserve_draws(plan: Plan, tensor: SymTensor) -> None:
    plan.random(where(tensor.numel() > 0, _BLOCKS, 0))


def _draw(plan: Plan, distribution: int, parameter: SymTensor) -> None:
    """Draws a value for each element of `parameter`, the first parameter of the distribution."""
    plan.result("out")
    plan.constants(DISTRIBUTION=distribution)
    _reserve_draws(plan, parameter)
    plan.launch("rejection_values", parameter.numel())


@_define(
    "poisson",
    (torch.float16, torch.bfloat16, *_WIDE),
    reports=RuntimeError("invalid Poisson rate, expected rate to be non-negative"),
)
def _poisson(plan: Plan, self: SymTensor) -> None:
    _draw(plan, _POISSON, self)


@_define("binomial", _WIDE)
def _binomial(plan: Plan, count: SymTensor, prob: SymTensor) -> None:
    # The host serves other shapes.
    plan.require(count.shape == prob.shape)
    _draw(plan, _BINOMIAL, count)


def _gamma(dtype: torch.dtype) -> Definition:
    @_define("_standard_gamma", (dtype,))
    def gamma(plan: Plan, self: SymTensor) -> None:
        plan.parameters(smallest=torch.finfo(dtype).tiny)
        _draw(plan, _GAMMA, self)

    return gamma


def _dirichlet(dtype: torch.dtype) -> Definition:
    @template(
        "_sample_dirichlet", "philox rejection dirichlet", dtypes=(dtype,), compute=torch.float64
    )
    def dirichlet(plan: Plan, self: SymTensor) -> None:
        limits = torch.finfo(dtype)
        length = where(self.dim() > 0, maximum(self.size(-1), 1), 1)
        plan.result("out")
        for name in ("factors", "exponents"):
            plan.temporary(name, self.numel(), torch.float64)
        plan.parameters(length=length)
        # The largest share is the largest number below 1.
        plan.parameters(smallest=limits.tiny, largest=1 - limits.eps / 2)
        _reserve_draws(plan, self)
        plan.launch("gamma_parts", self.numel())
        plan.launch("shares", self.numel() // length)

    return dirichlet
